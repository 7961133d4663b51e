# Cloud SQL: private, encrypted, of a stated edition, with an IAM user that may create.
mock_provider "google" {}

variables {
  project_id       = "acme-data"
  region           = "europe-west1"
  name             = "loader"
  network          = "projects/acme-data/global/networks/default"
  service_accounts = { loader = "loader@acme-data.iam.gserviceaccount.com" }
}

run "defaults" {
  command = plan

  assert {
    condition     = google_sql_database_instance.this.database_version == "POSTGRES_17" && google_sql_database_instance.this.settings[0].edition == "ENTERPRISE" && google_sql_database_instance.this.settings[0].tier == "db-custom-2-8192"
    error_message = "the edition must be stated, or Google takes the dearer one and refuses the tier"
  }

  assert {
    condition     = google_sql_database_instance.this.settings[0].ip_configuration[0].ipv4_enabled == false && google_sql_database_instance.this.settings[0].ip_configuration[0].ssl_mode == "ENCRYPTED_ONLY"
    error_message = "no public address, and encryption"
  }

  assert {
    condition     = { for f in google_sql_database_instance.this.settings[0].database_flags : f.name => f.value } == { "cloudsql.iam_authentication" = "on", max_connections = "100" }
    error_message = "wrong flags"
  }

  assert {
    condition     = google_sql_database_instance.this.settings[0].backup_configuration[0].point_in_time_recovery_enabled && google_sql_database_instance.this.deletion_protection
    error_message = "backups and protection are on"
  }

  assert {
    condition     = google_sql_user.this["loader"].name == "loader@acme-data.iam" && google_sql_user.this["loader"].type == "CLOUD_IAM_SERVICE_ACCOUNT" && google_sql_user.this["loader"].database_roles == tolist(["cloudsqlsuperuser"])
    error_message = "the account must log in by IAM and may create"
  }

  assert {
    condition     = google_sql_user.this["loader"].password == null
    error_message = "no password in the state"
  }
}

run "enterprise_plus" {
  command = plan

  variables {
    edition = "ENTERPRISE_PLUS"
    tier    = "db-perf-optimized-N-2"
  }
}

run "an_enterprise_tier_in_plus_is_refused" {
  command = plan

  variables {
    edition = "ENTERPRISE_PLUS"
  }

  expect_failures = [var.tier]
}

run "a_plus_tier_in_enterprise_is_refused" {
  command = plan

  variables {
    tier = "db-perf-optimized-N-2"
  }

  expect_failures = [var.tier]
}

run "an_unknown_edition_is_refused" {
  command = plan

  variables {
    edition = "FREE"
  }

  expect_failures = [var.edition]
}

run "an_unknown_availability_is_refused" {
  command = plan

  variables {
    availability_type = "GLOBAL"
  }

  expect_failures = [var.availability_type]
}

run "an_old_postgres_is_refused" {
  command = plan

  variables {
    postgres = 15
  }

  expect_failures = [var.postgres]
}

run "a_tiny_disk_is_refused" {
  command = plan

  variables {
    disk_gb = 9
  }

  expect_failures = [var.disk_gb]
}

run "a_limit_below_the_disk_is_refused" {
  command = plan

  variables {
    disk_limit_gb = 40
  }

  expect_failures = [var.disk_limit_gb]
}

run "few_connections_are_refused" {
  command = plan

  variables {
    max_connections = 19
  }

  expect_failures = [var.max_connections]
}
