resource "google_pubsub_subscription_iam_member" "subscriber" {
  for_each = var.consumers

  project      = var.project_id
  subscription = google_pubsub_subscription.this.name
  role         = "roles/pubsub.subscriber"
  member       = each.value
}

# `loader check` and the start of a worker read the subscription's settings, which a subscriber may not.
resource "google_pubsub_subscription_iam_member" "viewer" {
  for_each = var.consumers

  project      = var.project_id
  subscription = google_pubsub_subscription.this.name
  role         = "roles/pubsub.viewer"
  member       = each.value
}

resource "google_pubsub_topic_iam_member" "publisher" {
  for_each = var.topic == null ? var.publishers : {}

  project = var.project_id
  topic   = google_pubsub_topic.this[0].name
  role    = "roles/pubsub.publisher"
  member  = each.value
}

# A dead-letter policy is carried out by Pub/Sub itself, under its service agent's name.
data "google_project" "this" {
  count = var.dead_letter == null ? 0 : 1

  project_id = var.project_id
}

locals {
  service_agent = one([for p in data.google_project.this : "serviceAccount:service-${p.number}@gcp-sa-pubsub.iam.gserviceaccount.com"])
}

resource "google_pubsub_topic_iam_member" "service_agent" {
  count = var.dead_letter == null ? 0 : 1

  project = split("/", var.dead_letter.topic)[1]
  topic   = split("/", var.dead_letter.topic)[3]
  role    = "roles/pubsub.publisher"
  member  = local.service_agent
}

resource "google_pubsub_subscription_iam_member" "service_agent" {
  count = var.dead_letter == null ? 0 : 1

  project      = var.project_id
  subscription = google_pubsub_subscription.this.name
  role         = "roles/pubsub.subscriber"
  member       = local.service_agent
}
