# The roles of a VM's account: these and nothing more.
mock_provider "google" {
  mock_resource "google_service_account" {
    defaults = {
      email  = "loader@acme-data.iam.gserviceaccount.com"
      member = "serviceAccount:loader@acme-data.iam.gserviceaccount.com"
    }
  }
}

variables {
  project_id = "acme-data"
  name       = "loader"
  image      = "europe-west1-docker.pkg.dev/acme-images/containers/loader:1.0.0"
}

run "without_a_database" {
  command = plan

  assert {
    condition     = toset([for m in google_project_iam_member.this : m.role]) == toset(["roles/logging.logWriter", "roles/monitoring.metricWriter"])
    error_message = "wrong project roles"
  }

  assert {
    condition     = length(google_pubsub_topic_iam_member.publisher) == 0 && length(google_secret_manager_secret_iam_member.accessor) == 0
    error_message = "no roles on topics and secrets unasked"
  }

  assert {
    condition = (
      google_artifact_registry_repository_iam_member.reader.role == "roles/artifactregistry.reader"
      && google_artifact_registry_repository_iam_member.reader.project == "acme-images"
      && google_artifact_registry_repository_iam_member.reader.location == "europe-west1"
      && google_artifact_registry_repository_iam_member.reader.repository == "containers"
    )
    error_message = "the image's repository must be readable"
  }
}

run "with_cloud_sql" {
  command = plan

  variables {
    cloud_sql = true
  }

  assert {
    condition = toset([for m in google_project_iam_member.this : m.role]) == toset([
      "roles/logging.logWriter", "roles/monitoring.metricWriter", "roles/cloudsql.client", "roles/cloudsql.instanceUser",
    ])
    error_message = "wrong project roles"
  }
}

run "topics_and_secrets_one_by_one" {
  command = plan

  variables {
    publish_topics = { letters = "projects/other/topics/letters" }
    secrets        = { pgpass = "projects/vault/secrets/loader-db" }
  }

  assert {
    condition     = google_pubsub_topic_iam_member.publisher["letters"].role == "roles/pubsub.publisher" && google_pubsub_topic_iam_member.publisher["letters"].project == "other" && google_pubsub_topic_iam_member.publisher["letters"].topic == "letters"
    error_message = "wrong role on the topic"
  }

  assert {
    condition     = google_secret_manager_secret_iam_member.accessor["pgpass"].role == "roles/secretmanager.secretAccessor" && google_secret_manager_secret_iam_member.accessor["pgpass"].project == "vault" && google_secret_manager_secret_iam_member.accessor["pgpass"].secret_id == "loader-db"
    error_message = "wrong role on the secret"
  }
}

run "an_image_elsewhere_is_refused" {
  command = plan

  variables {
    image = "gcr.io/acme/loader:1"
  }

  expect_failures = [var.image]
}

run "a_short_name_is_refused" {
  command = plan

  variables {
    name = "load"
  }

  expect_failures = [var.name]
}

run "a_short_topic_is_refused" {
  command = plan

  variables {
    publish_topics = { letters = "letters" }
  }

  expect_failures = [var.publish_topics]
}

run "a_secrets_version_is_refused" {
  command = plan

  variables {
    secrets = { pgpass = "projects/vault/secrets/loader-db/versions/1" }
  }

  expect_failures = [var.secrets]
}
