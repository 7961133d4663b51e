output "network" {
  description = "The network, once VMs in it can go out and Cloud SQL can be placed in it."
  value       = var.network
  depends_on  = [google_compute_router_nat.this, google_service_networking_connection.services]
}
