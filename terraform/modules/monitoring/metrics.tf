# Log-based metrics read the text of the loader's lines, which is the same whether the logging agent has made fields of
# the JSON or ships the line as one text: then these words stand within it.
locals {
  metric_prefix = replace(var.name, "-", "_")
  container     = "resource.type=\"gce_instance\" AND jsonPayload.message=~"
  loaded        = "loaded [0-9]+ events as [0-9]+ rows into [0-9]+ tables"

  log_metrics = {
    rows = {
      description = "Rows committed, by load"
      filter      = "${local.container}\"${local.loaded}\""
      value       = "REGEXP_EXTRACT(jsonPayload.message, \"loaded [0-9]+ events as ([0-9]+) rows\")"
      unit        = "1"
    }
    events = {
      description = "Events committed, by load"
      filter      = "${local.container}\"${local.loaded}\""
      value       = "REGEXP_EXTRACT(jsonPayload.message, \"loaded ([0-9]+) events as\")"
      unit        = "1"
    }
    age_seconds = {
      description = "Age of a load's oldest event when it was committed, from its publish time"
      filter      = "${local.container}\"${local.loaded}\""
      value       = "REGEXP_EXTRACT(jsonPayload.message, \"dead letters, age ([0-9.]+) s\")"
      unit        = "s"
    }
    dead_letters = {
      description = "Dead letters, by table and reason"
      filter      = "${local.container}\"[0-9]+ dead letters: \""
      value       = "REGEXP_EXTRACT(jsonPayload.message, \"([0-9]+) dead letters: \")"
      unit        = "1"
    }
  }
}

resource "google_logging_metric" "this" {
  for_each = local.log_metrics

  project         = var.project_id
  name            = "${local.metric_prefix}_${each.key}"
  description     = each.value.description
  filter          = each.value.filter
  value_extractor = each.value.value
  # Empty where the agent has not made fields of the line.
  label_extractors = each.key == "dead_letters" ? { table = "EXTRACT(jsonPayload.table)", reason = "EXTRACT(jsonPayload.reason)" } : null

  metric_descriptor {
    metric_kind  = "DELTA"
    value_type   = "DISTRIBUTION"
    unit         = each.value.unit
    display_name = each.value.description

    dynamic "labels" {
      for_each = each.key == "dead_letters" ? ["table", "reason"] : []

      content {
        key        = labels.value
        value_type = "STRING"
      }
    }
  }

  bucket_options {
    exponential_buckets {
      num_finite_buckets = 40
      growth_factor      = 1.6
      scale              = 0.1
    }
  }
}

# One more, a plain counter: a bundle is a load.
resource "google_logging_metric" "bundles" {
  project     = var.project_id
  name        = "${local.metric_prefix}_bundles"
  description = "Loads committed"
  filter      = "${local.container}\"${local.loaded}\""

  metric_descriptor {
    metric_kind  = "DELTA"
    value_type   = "INT64"
    unit         = "1"
    display_name = "Loads committed"
  }
}
