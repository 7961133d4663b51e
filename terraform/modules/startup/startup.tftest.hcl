# The start-up file's refusals; what it holds is read and checked in tests/terraform.
variables {
  image       = "europe-west1-docker.pkg.dev/acme-data/loader/loader:1.0.0"
  environment = { LOADER_SUBSCRIPTION = "projects/acme-data/subscriptions/events" }
  health      = { port = 8080, ranges = ["35.191.0.0/16"] }
}

run "the_stop_times_fit_a_spot_vms_30_seconds" {
  command = plan

  assert {
    condition     = local.unit_stop_seconds + local.proxy_stop_seconds + 1 <= 30 && local.docker_stop_seconds > 20 && local.unit_stop_seconds > local.docker_stop_seconds
    error_message = "the worker drains, Docker waits longer, systemd longer still, and all of it ends before the VM does"
  }

  assert {
    condition     = strcontains(output.user_data, "LOADER_SHUTDOWN_SECONDS=20") && strcontains(output.user_data, "docker stop -t 23 loader")
    error_message = "the worker must know its time"
  }
}

run "a_drain_that_outlives_a_spot_vm_is_refused" {
  command = plan

  variables {
    shutdown = { worker_seconds = 23, machine_seconds = 30 }
  }

  expect_failures = [var.shutdown]
}

run "a_standard_vm_may_take_longer" {
  command = plan

  variables {
    shutdown = { worker_seconds = 110, machine_seconds = 120 }
  }
}

run "a_fraction_of_a_second_is_refused" {
  command = plan

  variables {
    shutdown = { worker_seconds = 20.5, machine_seconds = 30 }
  }

  expect_failures = [var.shutdown]
}

run "more_than_metadata_holds_is_refused" {
  command = plan

  variables {
    files = { "bridge.hcl" = join("\n", [for i in range(900) : format("# %298s", i)]) }
  }

  expect_failures = [output.user_data]
}

run "two_hundred_thousand_bytes_fit" {
  command = plan

  variables {
    files = { "bridge.hcl" = join("\n", [for i in range(700) : format("# %298s", i)]) }
  }
}

run "a_password_in_the_environment_is_refused" {
  command = plan

  variables {
    environment = { PGPASSWORD = "hunter2" }
  }

  expect_failures = [var.environment]
}

run "a_password_in_a_url_is_refused" {
  command = plan

  variables {
    environment = { LOADER_DATABASE_URL = "postgresql://loader:hunter2@10.0.0.3/events" }
  }

  expect_failures = [var.environment]
}

run "a_value_of_two_lines_is_refused" {
  command = plan

  variables {
    environment = { LOADER_TABLE_KEY = "a\nLOADER_TABLE_PREFIX=b" }
  }

  expect_failures = [var.environment]
}

run "an_argument_with_a_blank_is_refused" {
  command = plan

  variables {
    arguments = ["run --create"]
  }

  expect_failures = [var.arguments]
}

run "a_file_elsewhere_is_refused" {
  command = plan

  variables {
    files = { "../worker.env" = "" }
  }

  expect_failures = [var.files]
}

run "a_privileged_port_is_refused" {
  command = plan

  variables {
    health = { port = 80, ranges = [] }
  }

  expect_failures = [var.health]
}

run "an_image_elsewhere_is_refused" {
  command = plan

  variables {
    image = "docker.io/acme/loader:1"
  }

  expect_failures = [var.image]
}

run "an_instance_by_its_name_alone_is_refused" {
  command = plan

  variables {
    proxy = { image = "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.25.3", instance = "main" }
  }

  expect_failures = [var.proxy]
}

run "a_secret_without_version_is_refused" {
  command = plan

  variables {
    secrets = { pgpass = "projects/p/secrets/s" }
  }

  expect_failures = [var.secrets]
}
