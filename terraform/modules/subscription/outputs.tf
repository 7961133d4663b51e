# Each waits for the IAM bindings: whoever reads it gets a subscription that can be loaded.
output "id" {
  description = "projects/PROJECT/subscriptions/NAME."
  value       = "projects/${var.project_id}/subscriptions/${google_pubsub_subscription.this.name}"
  depends_on  = [google_pubsub_subscription_iam_member.subscriber, google_pubsub_subscription_iam_member.viewer]
}

output "name" {
  description = "Short name of the subscription, which metric filters take."
  value       = google_pubsub_subscription.this.name
}

output "topic" {
  description = "Topic to publish to, projects/PROJECT/topics/NAME."
  value       = local.topic
  depends_on  = [google_pubsub_topic_iam_member.publisher]
}
