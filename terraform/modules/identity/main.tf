locals {
  repository = regex("^(?P<location>[a-z0-9-]+)-docker\\.pkg\\.dev/(?P<project>[^/]+)/(?P<name>[^/]+)/", var.image)

  project_roles = toset(concat(
    ["roles/logging.logWriter", "roles/monitoring.metricWriter"],
    var.cloud_sql ? ["roles/cloudsql.client", "roles/cloudsql.instanceUser"] : [],
  ))
}

resource "google_service_account" "this" {
  project      = var.project_id
  account_id   = var.name
  display_name = var.name
  description  = "VMs of pubsub-postgres-loader"
}

resource "google_project_iam_member" "this" {
  for_each = local.project_roles

  project = var.project_id
  role    = each.value
  member  = google_service_account.this.member
}

resource "google_artifact_registry_repository_iam_member" "reader" {
  # A domain-scoped project is example.com:name, and its registry path example.com/name is not supported here.
  project    = local.repository.project
  location   = local.repository.location
  repository = local.repository.name
  role       = "roles/artifactregistry.reader"
  member     = google_service_account.this.member
}

resource "google_pubsub_topic_iam_member" "publisher" {
  for_each = var.publish_topics

  project = split("/", each.value)[1]
  topic   = split("/", each.value)[3]
  role    = "roles/pubsub.publisher"
  member  = google_service_account.this.member
}

resource "google_secret_manager_secret_iam_member" "accessor" {
  for_each = var.secrets

  project   = split("/", each.value)[1]
  secret_id = split("/", each.value)[3]
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.this.member
}
