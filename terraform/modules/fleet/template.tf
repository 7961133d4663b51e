locals {
  # Tau and Axion machines have Arm processors.
  arm = can(regex("^(t2a|c4a|n4a)-", var.machine_type))
  # The fourth generation takes Hyperdisk only.
  hyperdisk  = can(regex("^(c4|n4)[ad]?-", var.machine_type))
  boot_image = coalesce(var.boot_image, "projects/cos-cloud/global/images/family/${local.arm ? "cos-arm64-stable" : "cos-stable"}")
}

module "startup" {
  source = "../startup"

  image       = var.container.image
  arguments   = var.container.arguments
  environment = var.container.environment
  files       = var.container.files
  secrets     = var.container.secrets
  proxy       = var.container.proxy

  health = {
    port   = var.health.port
    ranges = local.health_ranges
  }

  shutdown = {
    worker_seconds  = var.container.shutdown_seconds
    machine_seconds = var.spot ? 30 : 120
  }
}

resource "google_compute_region_instance_template" "this" {
  project     = var.project_id
  region      = var.region
  name_prefix = "${var.name}-"
  description = "VMs of pubsub-postgres-loader"

  machine_type = var.machine_type
  labels       = var.labels
  tags         = [var.name]

  scheduling {
    provisioning_model          = var.spot ? "SPOT" : "STANDARD"
    preemptible                 = var.spot
    automatic_restart           = !var.spot
    on_host_maintenance         = var.spot ? "TERMINATE" : "MIGRATE"
    instance_termination_action = var.spot ? "STOP" : null
  }

  disk {
    boot         = true
    auto_delete  = true
    source_image = local.boot_image
    disk_size_gb = var.disk_gb
    disk_type    = local.hyperdisk ? "hyperdisk-balanced" : "pd-balanced"
  }

  # No access_config: no external address.
  network_interface {
    network    = var.network
    subnetwork = var.subnetwork
  }

  service_account {
    email  = var.service_account
    scopes = ["cloud-platform"] # roles are what limits it
  }

  shielded_instance_config {
    enable_secure_boot          = true
    enable_vtpm                 = true
    enable_integrity_monitoring = true
  }

  metadata = merge(var.metadata, {
    user-data                 = module.startup.user_data
    google-logging-enabled    = "true"
    google-monitoring-enabled = "true"
    enable-oslogin            = "TRUE"
    block-project-ssh-keys    = "TRUE"
    # Secure Boot blocks updates in place: new VMs come with the newest image instead.
    cos-update-strategy = "update_disabled"
  })

  lifecycle {
    create_before_destroy = true
  }
}
