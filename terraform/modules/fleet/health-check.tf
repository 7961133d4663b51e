# /healthz says that the main loop lives, not that the database does: an outage must not recycle the fleet.
resource "google_compute_health_check" "this" {
  project             = var.project_id
  name                = var.name
  check_interval_sec  = 30
  timeout_sec         = 10
  healthy_threshold   = 1
  unhealthy_threshold = 5

  http_health_check {
    port         = var.health.port
    request_path = "/healthz"
  }
}
