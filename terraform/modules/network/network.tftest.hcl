# NAT and the peering with Google's services come only where they are asked for.
mock_provider "google" {}

variables {
  project_id = "acme-data"
  region     = "europe-west1"
  name       = "loader"
  network    = "projects/acme-data/global/networks/default"
  subnetwork = "projects/acme-data/regions/europe-west1/subnetworks/default"
}

run "nothing_unasked" {
  command = plan

  assert {
    condition     = length(google_compute_router.this) + length(google_compute_router_nat.this) + length(google_compute_global_address.services) + length(google_service_networking_connection.services) == 0
    error_message = "nothing was asked for"
  }
}

run "both" {
  command = plan

  variables {
    nat                     = true
    private_services_access = true
  }

  assert {
    condition     = one(google_compute_router_nat.this[0].subnetwork).name == var.subnetwork && google_compute_router_nat.this[0].source_subnetwork_ip_ranges_to_nat == "LIST_OF_SUBNETWORKS"
    error_message = "only this subnetwork goes out"
  }

  assert {
    condition     = google_compute_global_address.services[0].purpose == "VPC_PEERING" && google_service_networking_connection.services[0].reserved_peering_ranges == tolist(["loader-services"])
    error_message = "wrong peering"
  }
}
