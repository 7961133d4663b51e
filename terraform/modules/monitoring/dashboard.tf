locals {
  charts = concat(
    [
      { title = "Backlog, messages", series = { "" = local.queries.backlog } },
      { title = "Oldest unacked message, seconds", series = { "" = local.queries.oldest } },
      { title = "Messages a second", series = { delivered = local.queries.published, acked = local.queries.acked } },
      { title = "Rows and events a second", series = { rows = local.queries.rows, events = local.queries.events } },
      { title = "Publish to commit, seconds", series = { p50 = local.queries.age_p50, p99 = local.queries.age_p99 } },
      { title = "Loads a second", series = { "" = local.queries.bundles } },
      { title = "Dead letters in 5 minutes, by table", series = { "$${labels.table} $${labels.reason}" = local.queries.dead_letters } },
      { title = "VMs", series = merge({ loader = local.queries.fleet_size }, var.bridge == null ? {} : { bridge = local.queries.bridge_size }) },
      { title = "CPU of the loader's VMs", series = { "" = local.queries.fleet_cpu } },
    ],
    var.cloud_sql == null ? [] : [
      { title = "Database connections (of ${var.cloud_sql.max_connections})", series = { "" = local.queries.connections } },
      { title = "Database CPU", series = { "" = local.queries.database_cpu } },
      { title = "Database disk, bytes", series = { "" = local.queries.disk_bytes } },
    ],
  )
}

resource "google_monitoring_dashboard" "this" {
  project = var.project_id

  dashboard_json = jsonencode({
    displayName = var.name
    mosaicLayout = {
      columns = 48
      tiles = [
        for index, chart in local.charts : {
          xPos   = (index % 3) * 16
          yPos   = floor(index / 3) * 16
          width  = 16
          height = 16
          widget = {
            title = chart.title
            xyChart = {
              dataSets = [
                for legend, query in chart.series : {
                  plotType           = "LINE"
                  targetAxis         = "Y1"
                  legendTemplate     = legend
                  timeSeriesQuery    = { prometheusQuery = query }
                  minAlignmentPeriod = "60s"
                }
              ]
              yAxis = { label = "", scale = "LINEAR" }
            }
          }
        }
      ]
    }
  })

  depends_on = [google_logging_metric.this, google_logging_metric.bundles]
}
