locals {
  make_database = var.existing_database == null
  # By IAM: Cloud SQL of this module, or an existing one without a password.
  cloud_sql_login = local.make_database || try(var.existing_database.password_secret, null) == null
  proxy_instance  = try(var.existing_database.connection_name, null)
  secrets         = local.cloud_sql_login ? {} : { pgpass = var.existing_database.password_secret }

  database = {
    host     = local.make_database ? module.database[0].host : local.proxy_instance != null ? "127.0.0.1" : var.existing_database.host
    port     = local.make_database || local.proxy_instance != null ? 5432 : var.existing_database.port
    database = local.make_database ? module.database[0].database : var.existing_database.database
    user     = local.cloud_sql_login ? trimsuffix(module.identity.email, ".gserviceaccount.com") : var.existing_database.user
    # The proxy's connection does not leave the VM; what leaves it is encrypted by the proxy.
    sslmode         = local.make_database ? "require" : local.proxy_instance != null ? "disable" : var.existing_database.sslmode
    max_connections = local.make_database ? var.cloud_sql.max_connections : var.existing_database.max_connections
  }

  # libpq reads these; a password only as a file.
  database_environment = merge(
    {
      PGHOST     = local.database.host
      PGPORT     = tostring(local.database.port)
      PGDATABASE = local.database.database
      PGUSER     = local.database.user
      PGSSLMODE  = local.database.sslmode
      # Through the proxy, the proxy brings the token.
      LOADER_IAM_AUTH = tostring(local.cloud_sql_login && local.proxy_instance == null)
    },
    local.cloud_sql_login ? {} : { PGPASSFILE = "/run/secrets/pgpass" },
  )

  grants = join("\n", [
    "GRANT CONNECT, CREATE ON DATABASE \"${local.database.database}\" TO \"${local.database.user}\";",
    "-- If the dataset is there already, made by another user:",
    "-- GRANT USAGE, CREATE ON SCHEMA \"${local.dataset}\" TO \"${local.database.user}\";",
    "-- ALTER TABLE … OWNER TO \"${local.database.user}\" for each of its tables: only an owner may add columns.",
  ])
}

module "database" {
  source = "./modules/database"
  count  = local.make_database ? 1 : 0

  project_id          = var.project_id
  region              = var.region
  name                = var.name
  network             = module.network.network
  tier                = var.cloud_sql.tier
  edition             = var.cloud_sql.edition
  postgres            = var.cloud_sql.postgres
  availability_type   = var.cloud_sql.availability_type
  disk_gb             = var.cloud_sql.disk_gb
  disk_limit_gb       = var.cloud_sql.disk_limit_gb
  database            = var.cloud_sql.database
  max_connections     = var.cloud_sql.max_connections
  deletion_protection = var.cloud_sql.deletion_protection
  service_accounts    = { loader = module.identity.email }
  labels              = local.labels

  depends_on = [google_project_service.this]
}
