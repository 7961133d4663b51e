# PromQL over Cloud Monitoring's metrics; alerts and dashboard share them.
locals {
  user   = "logging_googleapis_com:user_${local.metric_prefix}"
  vm     = "monitored_resource=\"gce_instance\""
  pubsub = "monitored_resource=\"pubsub_subscription\",subscription_id=\"${var.subscription}\""

  queries = {
    backlog      = "sum(pubsub_googleapis_com:subscription_num_undelivered_messages{${local.pubsub}})"
    oldest       = "max(pubsub_googleapis_com:subscription_oldest_unacked_message_age{${local.pubsub}})"
    published    = "sum(rate(pubsub_googleapis_com:subscription_sent_message_count{${local.pubsub}}[5m]))"
    acked        = "sum(rate(pubsub_googleapis_com:subscription_ack_message_count{${local.pubsub}}[5m]))"
    rows         = "sum(rate(${local.user}_rows_sum{${local.vm}}[5m]))"
    events       = "sum(rate(${local.user}_events_sum{${local.vm}}[5m]))"
    bundles      = "sum(rate(${local.user}_bundles{${local.vm}}[5m]))"
    age_p50      = "histogram_quantile(0.5, sum by (le) (rate(${local.user}_age_seconds_bucket{${local.vm}}[5m])))"
    age_p99      = "histogram_quantile(0.99, sum by (le) (rate(${local.user}_age_seconds_bucket{${local.vm}}[5m])))"
    dead_letters = "sum by (table, reason) (increase(${local.user}_dead_letters_sum{${local.vm}}[5m]))"
    fleet_size   = "max(compute_googleapis_com:instance_group_size{monitored_resource=\"instance_group\",instance_group_name=\"${var.fleet.name}\"})"
    fleet_cpu    = "avg(compute_googleapis_com:instance_cpu_utilization{${local.vm},instance_name=~\"${var.fleet.name}-.*\"})"
    bridge_size  = var.bridge == null ? "" : "max(compute_googleapis_com:instance_group_size{monitored_resource=\"instance_group\",instance_group_name=\"${var.bridge}\"})"
    connections  = var.cloud_sql == null ? "" : "sum(cloudsql_googleapis_com:database_postgresql_num_backends{monitored_resource=\"cloudsql_database\",database_id=~\".*:${var.cloud_sql.instance}\"})"
    database_cpu = var.cloud_sql == null ? "" : "max(cloudsql_googleapis_com:database_cpu_utilization{monitored_resource=\"cloudsql_database\",database_id=~\".*:${var.cloud_sql.instance}\"})"
    disk_bytes   = var.cloud_sql == null ? "" : "max(cloudsql_googleapis_com:database_disk_bytes_used{monitored_resource=\"cloudsql_database\",database_id=~\".*:${var.cloud_sql.instance}\"})"
  }
}
