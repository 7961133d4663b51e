# The root module: what three variables give, each way to a database, and each refusal.
mock_provider "google" {}

override_data {
  target = data.google_compute_subnetwork.this
  values = {
    private_ip_google_access = true
    self_link                = "projects/acme-data/regions/europe-west1/subnetworks/default"
  }
}

override_resource {
  target = module.identity.google_service_account.this
  values = {
    email  = "loader@acme-data.iam.gserviceaccount.com"
    member = "serviceAccount:loader@acme-data.iam.gserviceaccount.com"
  }
}

override_resource {
  target = module.database[0].google_sql_database_instance.this
  values = {
    private_ip_address = "10.20.0.3"
    connection_name    = "acme-data:europe-west1:loader"
  }
}

variables {
  project_id = "acme-data"
  region     = "europe-west1"
  image      = "europe-west1-docker.pkg.dev/acme-data/loader/loader:1.0.0"
}

run "three_variables_are_enough" {
  command = apply

  assert {
    condition     = output.subscription == "projects/acme-data/subscriptions/events" && output.topic == "projects/acme-data/topics/events"
    error_message = "wrong subscription or topic"
  }

  assert {
    condition     = output.database == { host = "10.20.0.3", port = 5432, database = "events", user = "loader@acme-data.iam", sslmode = "require", max_connections = 100 }
    error_message = "wrong database: ${jsonencode(output.database)}"
  }

  assert {
    condition     = output.grants == null && output.bridge_group == null && output.single_instance_assignment == 180000
    error_message = "wrong outputs"
  }

  assert {
    condition     = local.environment["LOADER_IAM_AUTH"] == "true" && !contains(keys(local.environment), "PGPASSFILE")
    error_message = "the login must be by IAM"
  }

  assert {
    condition     = toset(keys(google_project_service.this)) == toset(["artifactregistry", "compute", "iam", "logging", "monitoring", "pubsub", "servicenetworking", "sqladmin"])
    error_message = "wrong services: ${jsonencode(keys(google_project_service.this))}"
  }

  assert {
    condition     = alltrue([for s in google_project_service.this : s.disable_on_destroy == false])
    error_message = "services must stay when this is destroyed"
  }

  assert {
    condition     = length(google_project_iam_member.operators) == 0
    error_message = "nobody operates unasked"
  }
}

run "operators_may_seek_and_watch" {
  command = plan

  variables {
    operators = ["group:data@example.com"]
  }

  assert {
    condition     = toset([for m in google_project_iam_member.operators : "${m.member} ${m.role}"]) == toset(["group:data@example.com roles/pubsub.editor", "group:data@example.com roles/monitoring.viewer"])
    error_message = "wrong roles of operators"
  }
}

# With the services of the apply above in place, the subnetwork is read at plan time.
run "a_subnetwork_without_a_way_out_is_refused" {
  command = plan

  override_data {
    target = data.google_compute_subnetwork.this
    values = { private_ip_google_access = false }
  }

  expect_failures = [data.google_compute_subnetwork.this]
}

run "a_password_comes_from_secret_manager" {
  command = apply

  variables {
    existing_database = {
      host            = "10.1.2.3"
      database        = "warehouse"
      user            = "loader"
      password_secret = "projects/acme-data/secrets/loader-db"
      max_connections = 200
    }
    settings = { LOADER_DATASET = "raw" }
  }

  assert {
    condition     = length(module.database) == 0 && !contains(keys(google_project_service.this), "sqladmin") && contains(keys(google_project_service.this), "secretmanager")
    error_message = "no Cloud SQL is wanted here"
  }

  assert {
    condition     = local.container.secrets == { pgpass = "projects/acme-data/secrets/loader-db/versions/latest" } && local.environment["PGPASSFILE"] == "/run/secrets/pgpass" && local.environment["LOADER_IAM_AUTH"] == "false"
    error_message = "the password must come as a file"
  }

  assert {
    condition     = startswith(output.grants, "GRANT CONNECT, CREATE ON DATABASE \"warehouse\" TO \"loader\";")
    error_message = "wrong grants: ${output.grants}"
  }
}

run "a_connection_name_goes_through_the_proxy" {
  command = apply

  variables {
    existing_database = {
      connection_name = "acme-data:europe-west1:main"
      database        = "warehouse"
      max_connections = 200
    }
  }

  assert {
    condition     = local.container.proxy.instance == "acme-data:europe-west1:main" && output.database.host == "127.0.0.1" && output.database.user == "loader@acme-data.iam" && local.environment["LOADER_IAM_AUTH"] == "false"
    error_message = "the proxy must stand between"
  }
}

run "a_host_without_password_is_an_iam_login" {
  command = plan

  variables {
    existing_database = { host = "10.1.2.3", database = "warehouse", max_connections = 200 }
  }

  assert {
    condition     = local.environment["LOADER_IAM_AUTH"] == "true" && local.container.proxy == null
    error_message = "the login must be by IAM"
  }
}

run "a_floor_is_standard_and_of_one_size" {
  command = plan

  variables {
    workers = { standard_floor = 1 }
  }

  assert {
    condition     = length(module.floor) == 1
    error_message = "a floor was asked for"
  }
}

run "a_bridge_is_a_second_fleet" {
  command = plan

  variables {
    bridge = { config = "# nothing", partitions = 6, max = 6 }
  }

  assert {
    condition     = length(module.bridge) == 1 && length(module.bridge_identity) == 1 && output.bridge_group == "loader-bridge"
    error_message = "a bridge was asked for"
  }
}


run "without_alerts" {
  command = plan

  variables {
    alerts = null
  }

  assert {
    condition     = length(module.monitoring) == 0
    error_message = "no alerts were wanted"
  }
}

run "more_connections_than_the_database_accepts_are_refused" {
  command = plan

  variables {
    workers = { max = 38 }
  }

  expect_failures = [var.workers]
}

run "the_most_workers_that_fit_are_accepted" {
  command = plan

  variables {
    workers = { max = 37 }
  }
}

run "processes_count_for_connections" {
  command = plan

  variables {
    workers = { max = 10, processes = 4, drain_seconds = 120 }
  }

  expect_failures = [var.workers]
}

run "the_dead_letter_export_counts_for_connections" {
  command = plan

  variables {
    workers  = { max = 37 }
    settings = { LOADER_DEAD_LETTER_TOPIC = "projects/acme-data/topics/letters" }
  }

  expect_failures = [var.workers]
}

run "an_existing_databases_limit_holds" {
  command = plan

  variables {
    existing_database = { host = "10.1.2.3", database = "warehouse", max_connections = 40 }
  }

  expect_failures = [var.workers]
}

run "nat_is_a_way_out" {
  command = plan

  variables {
    network = { network = "main", subnetwork = "apps", nat = true }
  }

  override_data {
    target = data.google_compute_subnetwork.this
    values = { private_ip_google_access = false, self_link = "projects/acme-data/regions/europe-west1/subnetworks/apps" }
  }
}

run "an_image_elsewhere_is_refused" {
  command = plan

  variables {
    image = "docker.io/acme/loader:1"
  }

  expect_failures = [var.image]
}

run "an_image_without_tag_is_refused" {
  command = plan

  variables {
    image = "europe-west1-docker.pkg.dev/acme-data/loader/loader"
  }

  expect_failures = [var.image]
}

run "a_zone_is_no_region" {
  command = plan

  variables {
    region = "europe-west1-b"
  }

  expect_failures = [var.region]
}

run "a_wrong_project_is_refused" {
  command = plan

  variables {
    project_id = "Acme"
  }

  expect_failures = [var.project_id]
}

run "a_short_name_is_refused" {
  command = plan

  variables {
    name = "ld"
  }

  expect_failures = [var.name]
}

run "an_operator_without_a_kind_is_refused" {
  command = plan

  variables {
    operators = ["data@example.com"]
  }

  expect_failures = [var.operators]
}

run "logs_elsewhere_are_refused" {
  command = plan

  variables {
    logs = "syslog"
  }

  expect_failures = [var.logs]
}

run "what_the_module_sets_is_refused_as_a_setting" {
  command = plan

  variables {
    settings = { LOADER_PROCESSES = "4" }
  }

  expect_failures = [var.settings]
}

run "another_programs_setting_is_refused" {
  command = plan

  variables {
    settings = { TABLE_KEY = "type" }
  }

  expect_failures = [var.settings]
}

run "half_a_process_is_refused" {
  command = plan

  variables {
    workers = { processes = 1.5 }
  }

  expect_failures = [var.workers]
}

run "half_a_floor_is_refused" {
  command = plan

  variables {
    workers = { standard_floor = 0.5 }
  }

  expect_failures = [var.workers]
}

run "two_ways_to_a_database_are_refused" {
  command = plan

  variables {
    existing_database = { host = "10.1.2.3", connection_name = "a:b:c", database = "x", max_connections = 200 }
  }

  expect_failures = [var.existing_database]
}

run "a_user_without_password_is_refused" {
  command = plan

  variables {
    existing_database = { host = "10.1.2.3", user = "loader", database = "x", max_connections = 200 }
  }

  expect_failures = [var.existing_database]
}

run "a_password_through_the_proxy_is_refused" {
  command = plan

  variables {
    existing_database = { connection_name = "a:b:c", user = "loader", password_secret = "projects/p/secrets/s", database = "x", max_connections = 200 }
  }

  expect_failures = [var.existing_database]
}

run "a_password_in_place_of_its_secret_is_refused" {
  command = plan

  variables {
    existing_database = { host = "10.1.2.3", user = "loader", password_secret = "hunter2", database = "x", max_connections = 200 }
  }

  expect_failures = [var.existing_database]
}

run "an_unknown_sslmode_is_refused" {
  command = plan

  variables {
    existing_database = { host = "10.1.2.3", sslmode = "on", database = "x", max_connections = 200 }
  }

  expect_failures = [var.existing_database]
}
