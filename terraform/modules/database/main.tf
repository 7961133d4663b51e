resource "google_sql_database_instance" "this" {
  project             = var.project_id
  region              = var.region
  name                = var.name
  database_version    = "POSTGRES_${var.postgres}"
  deletion_protection = var.deletion_protection

  settings {
    edition                     = var.edition
    tier                        = var.tier
    availability_type           = var.availability_type
    deletion_protection_enabled = var.deletion_protection
    disk_type                   = "PD_SSD"
    disk_size                   = var.disk_gb
    disk_autoresize             = true
    disk_autoresize_limit       = var.disk_limit_gb
    user_labels                 = var.labels

    ip_configuration {
      ipv4_enabled    = false
      private_network = var.network
      ssl_mode        = "ENCRYPTED_ONLY"
    }

    backup_configuration {
      enabled                        = true
      point_in_time_recovery_enabled = true
      transaction_log_retention_days = 7
    }

    database_flags {
      name  = "cloudsql.iam_authentication"
      value = "on"
    }

    database_flags {
      name  = "max_connections"
      value = tostring(var.max_connections)
    }

    insights_config {
      query_insights_enabled = true
    }
  }

  lifecycle {
    # The disk has grown since it was made; making it smaller would mean making it anew.
    ignore_changes = [settings[0].disk_size]
  }
}

resource "google_sql_database" "this" {
  project  = var.project_id
  instance = google_sql_database_instance.this.name
  name     = var.database
  # It goes with its instance: Postgres drops neither a database that is in use nor a user that owns something.
  deletion_policy = "ABANDON"
}

resource "google_sql_user" "this" {
  for_each = var.service_accounts

  project  = var.project_id
  instance = google_sql_database_instance.this.name
  type     = "CLOUD_IAM_SERVICE_ACCOUNT"
  # Postgres knows the account without the end of its address.
  name = trimsuffix(each.value, ".gserviceaccount.com")
  # An IAM user has no rights of its own; this role owns the databases and may create a schema in them.
  database_roles  = ["cloudsqlsuperuser"]
  deletion_policy = "ABANDON"
}
