locals {
  # A rate of rows that is absent counts as none: a fleet that is down writes no lines at all.
  no_rows = join(" and on() ", [
    "(${local.queries.backlog} > ${var.thresholds.backlog_messages})",
    "(sum(delta(pubsub_googleapis_com:subscription_num_undelivered_messages{${local.pubsub}}[${var.thresholds.minutes_without_rows}m])) > 0)",
    "((sum(increase(${local.user}_rows_sum{${local.vm}}[${var.thresholds.minutes_without_rows}m])) or on() vector(0)) == 0)",
  ])

  alerts = merge(
    {
      oldest_unacked = {
        title    = "messages wait too long"
        severity = "ERROR"
        query    = "${local.queries.oldest} > ${var.thresholds.oldest_unacked_seconds}"
        duration = "300s"
        text     = "The oldest unacked message is older than ${var.thresholds.oldest_unacked_seconds} s. See `loader status`: either the fleet is too small or at its maximum, the database refuses writes, or one message comes back again and again."
      }
      dead_letters = {
        title    = "dead letters"
        severity = "WARNING"
        query    = "sum(increase(${local.user}_dead_letters_sum{${local.vm}}[10m])) > 0"
        duration = "0s"
        text     = "Messages could not be loaded; they are kept, with the reason, in `_dead_letters`: `loader dead-letters list`, mend, `loader dead-letters replay --all`."
      }
      no_rows = {
        title    = "nothing is loaded while the backlog grows"
        severity = "CRITICAL"
        query    = local.no_rows
        duration = "300s"
        text     = "No row for ${var.thresholds.minutes_without_rows} minutes, and the backlog grows. Are there VMs (quota, spot capacity)? Does /readyz say what is missing? Is the database up? Nothing is lost while messages wait: the subscription keeps them for 7 days."
      }
      at_maximum = {
        title    = "the fleet is at its maximum"
        severity = "WARNING"
        query    = "${local.queries.fleet_size} >= ${var.fleet.max_replicas}"
        duration = "${var.thresholds.minutes_at_maximum * 60}s"
        text     = "The group has had its ${var.fleet.max_replicas} VMs for ${var.thresholds.minutes_at_maximum} minutes. Raise workers.max (mind the database's connections), or find out why each worker loads less than workers.messages_per_second."
      }
    },
    var.cloud_sql == null ? {} : {
      connections = {
        title    = "the database runs out of connections"
        severity = "ERROR"
        query    = "${local.queries.connections} > ${floor(var.cloud_sql.max_connections * var.thresholds.connection_share)}"
        duration = "300s"
        text     = "More than ${var.thresholds.connection_share * 100} % of the instance's ${var.cloud_sql.max_connections} connections are taken. Who holds them: `select application_name, count(*) from pg_stat_activity group by 1`."
      }
    },
  )
}

resource "google_monitoring_alert_policy" "this" {
  for_each = local.alerts

  project               = var.project_id
  display_name          = "${var.name}: ${each.value.title}"
  combiner              = "OR"
  severity              = each.value.severity
  notification_channels = var.channels

  conditions {
    display_name = each.value.title

    condition_prometheus_query_language {
      query               = each.value.query
      duration            = each.value.duration
      evaluation_interval = "60s"
    }
  }

  documentation {
    content   = each.value.text
    mime_type = "text/markdown"
  }

  alert_strategy {
    auto_close = "86400s"
  }

  # The queries name metrics that these make.
  depends_on = [google_logging_metric.this]
}
