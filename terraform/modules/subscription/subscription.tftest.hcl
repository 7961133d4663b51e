# The subscription keeps what it has, forgets nothing idle, and gives back at once.
mock_provider "google" {}

variables {
  project_id = "acme-data"
  name       = "events"
  consumers  = { loader = "serviceAccount:loader@acme-data.iam.gserviceaccount.com" }
}

run "defaults" {
  command = plan

  assert {
    condition     = google_pubsub_topic.this[0].message_retention_duration == "604800s"
    error_message = "the topic must keep seven days for backfill"
  }

  assert {
    condition     = google_pubsub_subscription.this.expiration_policy[0].ttl == ""
    error_message = "an idle subscription must never be deleted"
  }

  assert {
    condition     = google_pubsub_subscription.this.ack_deadline_seconds == 60 && google_pubsub_subscription.this.message_retention_duration == "604800s" && google_pubsub_subscription.this.retain_acked_messages == false
    error_message = "wrong deadline or retention"
  }

  assert {
    condition     = length(google_pubsub_subscription.this.retry_policy) == 0
    error_message = "a retry policy delays what a stopping worker gives back"
  }

  assert {
    condition     = length(google_pubsub_subscription.this.dead_letter_policy) == 0 && google_pubsub_subscription.this.enable_exactly_once_delivery == false
    error_message = "dead-letter policy and exactly-once delivery are off by default"
  }

  assert {
    condition     = google_pubsub_subscription.this.topic == "projects/acme-data/topics/events"
    error_message = "wrong topic"
  }

  assert {
    condition     = [for m in values(google_pubsub_subscription_iam_member.subscriber) : m.role] == ["roles/pubsub.subscriber"] && [for m in values(google_pubsub_subscription_iam_member.viewer) : m.role] == ["roles/pubsub.viewer"]
    error_message = "a consumer is subscriber and viewer"
  }

  assert {
    condition     = length(google_pubsub_topic_iam_member.publisher) == 0 && length(google_pubsub_topic_iam_member.service_agent) == 0 && length(google_pubsub_subscription_iam_member.service_agent) == 0
    error_message = "no roles beyond the consumers'"
  }
}

run "an_existing_topic_stays_as_it_is" {
  command = plan

  variables {
    topic = "projects/other/topics/orders"
  }

  assert {
    condition     = length(google_pubsub_topic.this) == 0 && google_pubsub_subscription.this.topic == "projects/other/topics/orders"
    error_message = "the topic is there already"
  }
}

run "a_dead_letter_policy_has_its_service_agent" {
  command = plan

  override_data {
    target = data.google_project.this
    values = { number = "123456789012" }
  }

  variables {
    dead_letter = { topic = "projects/acme-data/topics/letters" }
  }

  assert {
    condition     = google_pubsub_subscription.this.dead_letter_policy[0].max_delivery_attempts == 100
    error_message = "preemptions are deliveries: 100 attempts"
  }

  assert {
    condition     = google_pubsub_topic_iam_member.service_agent[0].role == "roles/pubsub.publisher" && google_pubsub_topic_iam_member.service_agent[0].topic == "letters" && google_pubsub_topic_iam_member.service_agent[0].member == "serviceAccount:service-123456789012@gcp-sa-pubsub.iam.gserviceaccount.com"
    error_message = "the service agent must publish letters"
  }

  assert {
    condition     = google_pubsub_subscription_iam_member.service_agent[0].role == "roles/pubsub.subscriber"
    error_message = "the service agent must ack what it made a letter of"
  }
}

run "publishers_publish" {
  command = plan

  variables {
    publishers = { shop = "serviceAccount:shop@acme-data.iam.gserviceaccount.com" }
  }

  assert {
    condition     = google_pubsub_topic_iam_member.publisher["shop"].role == "roles/pubsub.publisher"
    error_message = "a publisher publishes"
  }
}

run "four_attempts_are_refused" {
  command = plan

  variables {
    dead_letter = { topic = "projects/acme-data/topics/letters", max_delivery_attempts = 4 }
  }

  expect_failures = [var.dead_letter]
}

run "a_short_dead_letter_topic_is_refused" {
  command = plan

  variables {
    dead_letter = { topic = "letters" }
  }

  expect_failures = [var.dead_letter]
}

run "a_short_topic_is_refused" {
  command = plan

  variables {
    topic = "orders"
  }

  expect_failures = [var.topic]
}

run "publishers_of_anothers_topic_are_refused" {
  command = plan

  variables {
    topic      = "projects/other/topics/orders"
    publishers = { shop = "user:shop@example.com" }
  }

  expect_failures = [var.topic]
}

run "googles_names_are_refused" {
  command = plan

  variables {
    name = "google-events"
  }

  expect_failures = [var.name]
}

run "a_month_and_a_day_is_refused" {
  command = plan

  variables {
    retention_days = 32
  }

  expect_failures = [var.retention_days]
}
