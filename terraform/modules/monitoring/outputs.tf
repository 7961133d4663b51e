output "alerts" {
  description = "Alert policies by name."
  value       = { for name, alert in google_monitoring_alert_policy.this : name => alert.name }
}

output "dashboard" {
  description = "Id of the dashboard."
  value       = google_monitoring_dashboard.this.id
}
