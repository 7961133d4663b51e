# The fleet: spot fields, template changes, update policy, autoscaling, host access, and each refusal.
mock_provider "google" {}

variables {
  project_id      = "acme-data"
  region          = "europe-west1"
  name            = "loader"
  network         = "projects/acme-net/global/networks/main"
  subnetwork      = "projects/acme-net/regions/europe-west1/subnetworks/apps"
  service_account = "loader@acme-data.iam.gserviceaccount.com"
  replicas        = { min = 2, max = 10 }
  backlog         = { subscription = "events", messages_per_second = 3000, drain_seconds = 120, held_messages = 60000 }
  container = {
    image       = "europe-west1-docker.pkg.dev/acme-data/loader/loader:1.0.0"
    environment = { LOADER_SUBSCRIPTION = "projects/acme-data/subscriptions/events" }
  }
}

run "spot_vms_have_every_field_of_spot" {
  command = plan

  assert {
    condition = (
      google_compute_region_instance_template.this.scheduling[0].provisioning_model == "SPOT"
      && google_compute_region_instance_template.this.scheduling[0].preemptible == true
      && google_compute_region_instance_template.this.scheduling[0].automatic_restart == false
      && google_compute_region_instance_template.this.scheduling[0].on_host_maintenance == "TERMINATE"
      && google_compute_region_instance_template.this.scheduling[0].instance_termination_action == "STOP"
    )
    error_message = "a spot template without all of these changes at each plan"
  }
}

run "standard_vms_have_none_of_spots" {
  command = plan

  variables {
    spot = false
  }

  assert {
    condition = (
      google_compute_region_instance_template.this.scheduling[0].provisioning_model == "STANDARD"
      && google_compute_region_instance_template.this.scheduling[0].preemptible == false
      && google_compute_region_instance_template.this.scheduling[0].automatic_restart == true
      && google_compute_region_instance_template.this.scheduling[0].instance_termination_action == null
    )
    error_message = "a termination action is refused where a VM is not spot"
  }
}

run "vms_are_closed" {
  command = plan

  assert {
    condition     = length(google_compute_region_instance_template.this.network_interface[0].access_config) == 0
    error_message = "no external address"
  }

  assert {
    condition     = google_compute_region_instance_template.this.shielded_instance_config[0].enable_secure_boot && google_compute_region_instance_template.this.metadata["enable-oslogin"] == "TRUE" && google_compute_region_instance_template.this.metadata["block-project-ssh-keys"] == "TRUE"
    error_message = "Shielded VM and OS Login"
  }

  assert {
    condition     = !contains(keys(google_compute_region_instance_template.this.metadata), "gce-container-declaration") && startswith(google_compute_region_instance_template.this.metadata["user-data"], "#cloud-config\n")
    error_message = "the container start-up agent works no more: cloud-init it is"
  }

  assert {
    condition     = google_compute_region_instance_template.this.metadata["google-logging-enabled"] == "true"
    error_message = "the system's logging agent ships the lines"
  }

  assert {
    condition     = google_compute_region_instance_template.this.disk[0].source_image == "projects/cos-cloud/global/images/family/cos-stable"
    error_message = "wrong system"
  }
}

run "a_new_template_comes_before_the_old_one_goes" {
  command = plan

  assert {
    condition     = google_compute_region_instance_template.this.name_prefix == "loader-"
    error_message = "a template with a fixed name cannot be replaced while a group uses it"
  }

  assert {
    condition     = google_compute_region_instance_group_manager.this.update_policy[0].type == "PROACTIVE" && google_compute_region_instance_group_manager.this.update_policy[0].max_surge_fixed == 3 && google_compute_region_instance_group_manager.this.update_policy[0].max_unavailable_fixed == 0
    error_message = "a rolling update, a surge of one in each zone"
  }
}

run "the_surge_is_the_number_of_zones" {
  command = plan

  variables {
    zones = ["europe-west1-b", "europe-west1-c"]
  }

  assert {
    condition     = google_compute_region_instance_group_manager.this.update_policy[0].max_surge_fixed == 2
    error_message = "less than the zones is refused, more is not needed"
  }
}

# The value is the mock's own only while the configuration gives none.
run "the_group_has_no_target_size" {
  command = apply

  override_resource {
    target = google_compute_region_instance_group_manager.this
    values = { target_size = 4711 }
  }

  assert {
    condition     = google_compute_region_instance_group_manager.this.target_size == 4711
    error_message = "target_size is configured: it would fight with the autoscaler"
  }
}

run "the_backlog_scales" {
  command = plan

  assert {
    condition     = google_compute_region_autoscaler.this.autoscaling_policy[0].metric[0].name == "pubsub.googleapis.com/subscription/num_undelivered_messages"
    error_message = "wrong metric"
  }

  assert {
    condition     = google_compute_region_autoscaler.this.autoscaling_policy[0].metric[0].filter == "resource.type = pubsub_subscription AND resource.labels.subscription_id = events"
    error_message = "without the resource's type the metric is looked for on VMs"
  }

  assert {
    condition     = google_compute_region_autoscaler.this.autoscaling_policy[0].metric[0].single_instance_assignment == 360000 && google_compute_region_autoscaler.this.autoscaling_policy[0].metric[0].target == null && google_compute_region_autoscaler.this.autoscaling_policy[0].metric[0].type == null
    error_message = "the assignment is what a VM loads while a backlog drains, and stands alone"
  }

  assert {
    condition     = google_compute_region_autoscaler.this.autoscaling_policy[0].cpu_utilization[0].target == 0.7
    error_message = "CPU is the second signal"
  }

  assert {
    condition     = google_compute_region_autoscaler.this.autoscaling_policy[0].min_replicas == 2 && google_compute_region_autoscaler.this.autoscaling_policy[0].max_replicas == 10 && google_compute_region_autoscaler.this.autoscaling_policy[0].cooldown_period == 300
    error_message = "wrong size or cooldown"
  }

  assert {
    condition     = google_compute_region_autoscaler.this.autoscaling_policy[0].scale_in_control[0].time_window_sec == 300 && google_compute_region_autoscaler.this.autoscaling_policy[0].scale_in_control[0].max_scaled_in_replicas[0].fixed == 1
    error_message = "a gap in the metric must not empty the group"
  }
}

run "zero_is_allowed" {
  command = plan

  variables {
    replicas = { min = 0, max = 4 }
  }
}

run "a_bridge_scales_by_cpu_alone" {
  command = plan

  variables {
    backlog    = null
    partitions = 10
  }

  assert {
    condition     = length(google_compute_region_autoscaler.this.autoscaling_policy[0].metric) == 0 && output.single_instance_assignment == null
    error_message = "no backlog scales it"
  }
}

run "arm_machines_boot_an_arm_system" {
  command = plan

  variables {
    machine_type = "c4a-standard-1"
  }

  assert {
    condition     = google_compute_region_instance_template.this.disk[0].source_image == "projects/cos-cloud/global/images/family/cos-arm64-stable"
    error_message = "wrong system for the processor"
  }

  assert {
    condition     = google_compute_region_instance_template.this.disk[0].disk_type == "hyperdisk-balanced"
    error_message = "a fourth-generation machine boots from Hyperdisk only"
  }
}

run "the_health_port_opens_to_googles_checks_alone" {
  command = plan

  assert {
    condition     = google_compute_firewall.health.source_ranges == toset(["35.191.0.0/16", "130.211.0.0/22"]) && one(google_compute_firewall.health.allow).ports == tolist(["8080"]) && google_compute_firewall.health.target_tags == toset(["loader"])
    error_message = "wrong firewall"
  }

  assert {
    condition     = google_compute_firewall.health.project == "acme-net"
    error_message = "the rule belongs to the network's project"
  }

  assert {
    condition     = google_compute_health_check.this.http_health_check[0].request_path == "/healthz" && google_compute_health_check.this.unhealthy_threshold * google_compute_health_check.this.check_interval_sec >= 120
    error_message = "health is the process's life, and slow to judge"
  }
}

run "a_scrape_range_opens_both_firewalls" {
  command = plan

  variables {
    health = { scrape_ranges = ["10.10.0.0/16"] }
  }

  assert {
    condition     = contains(google_compute_firewall.health.source_ranges, "10.10.0.0/16") && strcontains(google_compute_region_instance_template.this.metadata["user-data"], "35.191.0.0/16 130.211.0.0/22 10.10.0.0/16")
    error_message = "Prometheus must reach the port through the network's and the VM's firewall"
  }
}

run "an_assignment_within_flow_control_is_refused" {
  command = plan

  variables {
    backlog = { subscription = "events", messages_per_second = 500, drain_seconds = 120, held_messages = 60000 }
  }

  expect_failures = [var.backlog]
}

run "a_full_subscription_name_is_refused" {
  command = plan

  variables {
    backlog = { subscription = "projects/acme-data/subscriptions/events", messages_per_second = 3000, drain_seconds = 120, held_messages = 60000 }
  }

  expect_failures = [var.backlog]
}

run "a_worker_that_loads_nothing_is_refused" {
  command = plan

  variables {
    backlog = { subscription = "events", messages_per_second = 0, drain_seconds = 120, held_messages = 0 }
  }

  expect_failures = [var.backlog]
}

run "more_consumers_than_partitions_are_refused" {
  command = plan

  variables {
    backlog    = null
    partitions = 9
  }

  expect_failures = [var.partitions]
}

run "a_bridge_on_its_own_backlog_is_refused" {
  command = plan

  variables {
    partitions = 10
  }

  expect_failures = [var.partitions]
}

run "a_minimum_above_the_maximum_is_refused" {
  command = plan

  variables {
    replicas = { min = 3, max = 2 }
  }

  expect_failures = [var.replicas]
}

run "a_busy_target_is_refused" {
  command = plan

  variables {
    cpu_target = 70
  }

  expect_failures = [var.cpu_target]
}

run "a_small_disk_is_refused" {
  command = plan

  variables {
    disk_gb = 8
  }

  expect_failures = [var.disk_gb]
}

run "healing_before_boot_is_refused" {
  command = plan

  variables {
    health = { initial_delay = 60 }
  }

  expect_failures = [var.health]
}

run "the_whole_internet_may_not_scrape" {
  command = plan

  variables {
    health = { scrape_ranges = ["0.0.0.0/0"] }
  }

  expect_failures = [var.health]
}

run "the_old_container_agent_is_refused" {
  command = plan

  variables {
    metadata = { gce-container-declaration = "spec: {}" }
  }

  expect_failures = [var.metadata]
}

run "a_long_name_is_refused" {
  command = plan

  variables {
    name = "a-name-of-more-than-thirty-seven-letters"
  }

  expect_failures = [var.name]
}

run "a_wide_scale_in_window_is_refused" {
  command = plan

  variables {
    scale_in = { seconds = 7200 }
  }

  expect_failures = [var.scale_in]
}

run "zones_elsewhere_are_refused" {
  command = plan

  variables {
    zones = ["us-east1-b"]
  }

  expect_failures = [var.zones]
}
