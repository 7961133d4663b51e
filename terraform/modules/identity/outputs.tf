output "email" {
  description = "Address of the service account, once it has its roles."
  value       = google_service_account.this.email
  depends_on = [
    google_project_iam_member.this,
    google_artifact_registry_repository_iam_member.reader,
    google_pubsub_topic_iam_member.publisher,
    google_secret_manager_secret_iam_member.accessor,
  ]
}

output "member" {
  description = "The account as IAM writes it, serviceAccount:ADDRESS."
  value       = google_service_account.this.member
}
