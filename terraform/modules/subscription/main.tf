locals {
  topic = var.topic != null ? var.topic : "projects/${var.project_id}/topics/${google_pubsub_topic.this[0].name}"
}

resource "google_pubsub_topic" "this" {
  count = var.topic == null ? 1 : 0

  project = var.project_id
  name    = var.name
  labels  = var.labels

  # Backfill reads this; the subscription need not keep acked messages then, and storage is paid once.
  message_retention_duration = "${var.retention_days * 86400}s"
}

resource "google_pubsub_subscription" "this" {
  project = var.project_id
  name    = var.name
  topic   = local.topic
  labels  = var.labels

  # The deadline of a message whose worker vanished; workers renew their leases, and a lost VM's messages wait this long.
  ack_deadline_seconds         = 60
  message_retention_duration   = "604800s"
  retain_acked_messages        = false
  enable_exactly_once_delivery = var.exactly_once

  # Never: the default deletes a subscription, and what waits in it, after 31 idle days.
  expiration_policy {
    ttl = ""
  }

  # No retry_policy: it would delay what a stopping worker gives back by 10 s and more. Workers back off themselves.

  dynamic "dead_letter_policy" {
    for_each = var.dead_letter == null ? [] : [var.dead_letter]

    content {
      dead_letter_topic     = dead_letter_policy.value.topic
      max_delivery_attempts = dead_letter_policy.value.max_delivery_attempts
    }
  }
}
