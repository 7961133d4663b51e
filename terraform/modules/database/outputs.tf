output "connection_name" {
  description = "PROJECT:REGION:NAME, which the Cloud SQL Auth Proxy takes."
  value       = google_sql_database_instance.this.connection_name
}

output "database" {
  description = "Name of the database."
  value       = google_sql_database.this.name
}

output "host" {
  description = "Private address of the instance, once the accounts can log in."
  value       = google_sql_database_instance.this.private_ip_address
  depends_on  = [google_sql_user.this]
}

output "instance" {
  description = "Name of the instance."
  value       = google_sql_database_instance.this.name
}
