locals {
  network_project = coalesce(var.network.project, var.project_id)
  network         = "projects/${local.network_project}/global/networks/${var.network.network}"
  subnetwork      = "projects/${local.network_project}/regions/${var.region}/subnetworks/${var.network.subnetwork}"

  labels = merge({ app = var.name }, var.labels)

  services = concat(
    ["artifactregistry", "compute", "iam", "logging", "monitoring", "pubsub"],
    local.cloud_sql_login ? ["sqladmin"] : [],
    local.make_database && var.cloud_sql.private_services_access ? ["servicenetworking"] : [],
    length(local.secrets) > 0 || length(try(var.bridge.secrets, {})) > 0 ? ["secretmanager"] : [],
  )
}

resource "google_project_service" "this" {
  for_each = toset(local.services)

  project = var.project_id
  service = "${each.value}.googleapis.com"
  # Others in the project may need them.
  disable_on_destroy = false
}

# Only a check: what is made takes the subnetwork by name, which is known before any API is enabled.
data "google_compute_subnetwork" "this" {
  project = local.network_project
  region  = var.region
  name    = var.network.subnetwork

  lifecycle {
    postcondition {
      condition     = var.network.nat || self.private_ip_google_access
      error_message = "The subnetwork ${var.network.subnetwork} has no Private Google Access, so VMs without external address could reach neither Pub/Sub nor the registry. Turn it on (gcloud compute networks subnets update ${var.network.subnetwork} --region=${var.region} --enable-private-ip-google-access) or set network = { nat = true }."
    }
  }

  depends_on = [google_project_service.this]
}

module "network" {
  source = "./modules/network"

  project_id              = local.network_project
  region                  = var.region
  name                    = var.name
  network                 = local.network
  subnetwork              = local.subnetwork
  nat                     = var.network.nat
  private_services_access = local.make_database && var.cloud_sql.private_services_access

  depends_on = [google_project_service.this]
}

module "subscription" {
  source = "./modules/subscription"

  project_id     = var.project_id
  name           = var.subscription.name
  topic          = var.subscription.topic
  retention_days = var.subscription.retention_days
  exactly_once   = var.subscription.exactly_once
  dead_letter    = var.subscription.dead_letter
  publishers     = var.subscription.publishers
  consumers      = { loader = module.identity.member }
  labels         = local.labels

  depends_on = [google_project_service.this]
}

module "identity" {
  source = "./modules/identity"

  project_id = var.project_id
  name       = var.name
  image      = var.image
  cloud_sql  = local.cloud_sql_login
  secrets    = { for name, secret in local.secrets : name => secret }
  publish_topics = {
    for name, topic in { dead_letters = lookup(var.settings, "LOADER_DEAD_LETTER_TOPIC", "") } : name => topic if topic != ""
  }

  depends_on = [google_project_service.this]
}

resource "google_project_iam_member" "operators" {
  for_each = {
    for pair in setproduct(var.operators, ["roles/pubsub.editor", "roles/monitoring.viewer"]) : "${pair[0]} ${pair[1]}" => pair
  }

  project = var.project_id
  member  = each.value[0]
  role    = each.value[1]
}
