# Alerts and dashboard: what they watch, and that they watch this fleet.
mock_provider "google" {}

variables {
  project_id   = "acme-data"
  name         = "loader"
  subscription = "events"
  fleet        = { name = "loader", max_replicas = 10 }
  channels     = ["projects/acme-data/notificationChannels/1"]
}

run "with_cloud_sql" {
  command = plan

  variables {
    cloud_sql = { instance = "loader", max_connections = 100 }
    bridge    = "loader-bridge"
  }

  assert {
    condition     = toset(keys(google_monitoring_alert_policy.this)) == toset(["oldest_unacked", "dead_letters", "no_rows", "at_maximum", "connections"])
    error_message = "wrong alerts"
  }

  assert {
    condition     = alltrue([for a in google_monitoring_alert_policy.this : a.notification_channels == tolist(["projects/acme-data/notificationChannels/1"])])
    error_message = "alerts must reach somebody"
  }

  assert {
    condition     = google_monitoring_alert_policy.this["at_maximum"].conditions[0].condition_prometheus_query_language[0].query == "max(compute_googleapis_com:instance_group_size{monitored_resource=\"instance_group\",instance_group_name=\"loader\"}) >= 10"
    error_message = "wrong query: ${google_monitoring_alert_policy.this["at_maximum"].conditions[0].condition_prometheus_query_language[0].query}"
  }

  assert {
    condition     = endswith(google_monitoring_alert_policy.this["connections"].conditions[0].condition_prometheus_query_language[0].query, " > 80")
    error_message = "80 % of 100 connections"
  }

  assert {
    condition     = strcontains(google_monitoring_alert_policy.this["no_rows"].conditions[0].condition_prometheus_query_language[0].query, "or on() vector(0)")
    error_message = "a fleet that is down writes no lines: their absence must count as none"
  }

  assert {
    condition     = length(jsondecode(google_monitoring_dashboard.this.dashboard_json).mosaicLayout.tiles) == 12
    error_message = "wrong dashboard"
  }

  assert {
    condition     = toset([for m in google_logging_metric.this : m.name]) == toset(["loader_rows", "loader_events", "loader_age_seconds", "loader_dead_letters"]) && google_logging_metric.bundles.name == "loader_bundles"
    error_message = "wrong metrics"
  }
}

run "with_a_database_elsewhere" {
  command = plan

  assert {
    condition     = !contains(keys(google_monitoring_alert_policy.this), "connections") && length(jsondecode(google_monitoring_dashboard.this.dashboard_json).mosaicLayout.tiles) == 9
    error_message = "Cloud Monitoring knows nothing of that database"
  }
}

run "an_alert_within_the_metrics_delay_is_refused" {
  command = plan

  variables {
    thresholds = { oldest_unacked_seconds = 60 }
  }

  expect_failures = [var.thresholds]
}

run "a_name_with_blanks_is_refused" {
  command = plan

  variables {
    name = "my loader"
  }

  expect_failures = [var.name]
}
