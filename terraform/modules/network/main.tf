resource "google_compute_router" "this" {
  count = var.nat ? 1 : 0

  project = var.project_id
  region  = var.region
  name    = var.name
  network = var.network
}

resource "google_compute_router_nat" "this" {
  count = var.nat ? 1 : 0

  project                            = var.project_id
  region                             = var.region
  name                               = var.name
  router                             = google_compute_router.this[0].name
  nat_ip_allocate_option             = "AUTO_ONLY"
  source_subnetwork_ip_ranges_to_nat = "LIST_OF_SUBNETWORKS"

  subnetwork {
    name                    = var.subnetwork
    source_ip_ranges_to_nat = ["ALL_IP_RANGES"]
  }

  log_config {
    enable = true
    filter = "ERRORS_ONLY"
  }
}

resource "google_compute_global_address" "services" {
  count = var.private_services_access ? 1 : 0

  project       = var.project_id
  name          = "${var.name}-services"
  network       = var.network
  purpose       = "VPC_PEERING"
  address_type  = "INTERNAL"
  prefix_length = 20
}

resource "google_service_networking_connection" "services" {
  count = var.private_services_access ? 1 : 0

  network                 = var.network
  service                 = "servicenetworking.googleapis.com"
  reserved_peering_ranges = [google_compute_global_address.services[0].name]
  # Google keeps the peering for days after the last instance; a destroy must not hang on that.
  deletion_policy = "ABANDON"
}
