module "bridge_identity" {
  source = "./modules/identity"
  count  = var.bridge == null ? 0 : 1

  project_id = var.project_id
  name       = "${var.name}-bridge"
  image      = var.image
  secrets    = { for name, version in var.bridge.secrets : name => join("/", slice(split("/", version), 0, 4)) }
  # With a topic that is there already, it must be one of publish_topics if the bridge writes to it.
  publish_topics = merge(var.subscription.topic == null ? { events = module.subscription.topic } : {}, var.bridge.publish_topics)

  depends_on = [google_project_service.this]
}

module "bridge" {
  source = "./modules/fleet"
  count  = var.bridge == null ? 0 : 1

  project_id      = var.project_id
  region          = var.region
  name            = "${var.name}-bridge"
  network         = module.network.network
  subnetwork      = local.subnetwork
  service_account = module.bridge_identity[0].email
  machine_type    = var.bridge.machine_type
  spot            = var.bridge.spot
  replicas        = { min = var.bridge.min, max = var.bridge.max }
  partitions      = var.bridge.partitions
  cpu_target      = var.bridge.cpu_target
  health          = { scrape_ranges = var.scrape_ranges }
  labels          = merge(local.labels, { component = "bridge" })
  # The bridge asks for it when neither flag nor variable says which part of the file it runs.
  metadata = { environment = var.bridge.environment }

  container = {
    image            = var.image
    arguments        = ["bridge", "/etc/loader/bridge.hcl"]
    environment      = merge(var.bridge.settings, { LOADER_LOG_TO = var.logs == "api" ? "cloud" : "stdout" })
    files            = { "bridge.hcl" = var.bridge.config }
    secrets          = var.bridge.secrets
    shutdown_seconds = var.bridge.shutdown_seconds
  }
}
