locals {
  dataset = lookup(var.settings, "LOADER_DATASET", "events")
  # The loader's own default: three bundles at their limit.
  held_messages = 3 * var.workers.max_bundle_messages * var.workers.processes

  environment = merge(var.settings, local.database_environment, {
    LOADER_SUBSCRIPTION        = module.subscription.id
    LOADER_PROCESSES           = tostring(var.workers.processes)
    LOADER_MAX_BUNDLE_MESSAGES = tostring(var.workers.max_bundle_messages)
    LOADER_LOG_TO              = var.logs == "api" ? "cloud" : "stdout"
  })

  container = {
    image            = var.image
    arguments        = ["run"]
    environment      = local.environment
    secrets          = { for name, secret in local.secrets : name => "${secret}/versions/latest" }
    shutdown_seconds = var.workers.shutdown_seconds
    proxy            = local.proxy_instance == null ? null : { image = local.proxy_image, instance = local.proxy_instance }
  }

  proxy_image = "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.25.3"

  # One VM more than this backlog: the same inputs, and the group below checks them.
  backlog = {
    subscription        = module.subscription.name
    messages_per_second = var.workers.messages_per_second
    drain_seconds       = var.workers.drain_seconds
    held_messages       = local.held_messages
  }
}

module "loader" {
  source = "./modules/fleet"

  project_id      = var.project_id
  region          = var.region
  name            = var.name
  network         = module.network.network
  subnetwork      = local.subnetwork
  service_account = module.identity.email
  container       = local.container
  machine_type    = var.workers.machine_type
  spot            = var.workers.spot
  zones           = var.workers.zones
  replicas        = { min = var.workers.min, max = var.workers.max }
  backlog         = local.backlog
  cpu_target      = var.workers.cpu_target
  scale_in        = { replicas = var.workers.scale_in_replicas, seconds = var.workers.scale_in_seconds }
  health          = { scrape_ranges = var.scrape_ranges }
  labels          = merge(local.labels, { component = "loader" })
}

# What stays when every spot VM is taken back at once.
module "floor" {
  source = "./modules/fleet"
  count  = var.workers.standard_floor > 0 ? 1 : 0

  project_id      = var.project_id
  region          = var.region
  name            = "${var.name}-floor"
  network         = module.network.network
  subnetwork      = local.subnetwork
  service_account = module.identity.email
  container       = local.container
  machine_type    = var.workers.machine_type
  spot            = false
  zones           = var.workers.zones
  replicas        = { min = var.workers.standard_floor, max = var.workers.standard_floor }
  health          = { scrape_ranges = var.scrape_ranges }
  labels          = merge(local.labels, { component = "loader" })
}

module "monitoring" {
  source = "./modules/monitoring"
  count  = var.alerts == null ? 0 : 1

  project_id   = var.project_id
  name         = var.name
  subscription = module.subscription.name
  fleet        = { name = module.loader.name, max_replicas = var.workers.max }
  bridge       = var.bridge == null ? null : module.bridge[0].name
  cloud_sql    = local.make_database ? { instance = module.database[0].instance, max_connections = var.cloud_sql.max_connections } : null
  channels     = var.alerts.channels
  thresholds   = var.alerts.thresholds
}
