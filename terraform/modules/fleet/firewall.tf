locals {
  # From where Google's health checks come, and whoever else may read the port; the VMs' own firewall gets the same.
  health_ranges = concat(["35.191.0.0/16", "130.211.0.0/22"], var.health.scrape_ranges)
}

resource "google_compute_firewall" "health" {
  # The network's project, which is another one with a shared VPC.
  project       = try(regex("projects/([^/]+)/", var.network)[0], var.project_id)
  name          = "${var.name}-health"
  network       = var.network
  description   = "Health checks, and Prometheus where scrape_ranges say so, to the worker's HTTP port"
  direction     = "INGRESS"
  source_ranges = local.health_ranges
  target_tags   = [var.name]

  allow {
    protocol = "tcp"
    ports    = [tostring(var.health.port)]
  }
}
