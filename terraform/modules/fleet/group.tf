locals {
  # A regional group's surge must be 0 or at least its zones; without a list Google chooses three.
  surge = length(var.zones) == 0 ? 3 : length(var.zones)
}

resource "google_compute_region_instance_group_manager" "this" {
  project            = var.project_id
  region             = var.region
  name               = var.name
  base_instance_name = var.name
  # No target_size: each apply would set the group back to it, against the autoscaler.

  distribution_policy_zones        = length(var.zones) == 0 ? null : var.zones
  distribution_policy_target_shape = "EVEN"

  version {
    instance_template = google_compute_region_instance_template.this.self_link
  }

  named_port {
    name = "health"
    port = var.health.port
  }

  auto_healing_policies {
    health_check      = google_compute_health_check.this.id
    initial_delay_sec = var.health.initial_delay
  }

  update_policy {
    type                           = "PROACTIVE"
    minimal_action                 = "REPLACE"
    most_disruptive_allowed_action = "REPLACE"
    replacement_method             = "SUBSTITUTE"
    instance_redistribution_type   = "PROACTIVE"
    max_surge_fixed                = local.surge
    max_unavailable_fixed          = 0
  }
}
