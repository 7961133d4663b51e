locals {
  # Messages of backlog for each VM: what it loads in the time in which a backlog should be gone.
  single_instance_assignment = var.backlog == null ? null : var.backlog.messages_per_second * var.backlog.drain_seconds
}

resource "google_compute_region_autoscaler" "this" {
  project = var.project_id
  region  = var.region
  name    = var.name
  target  = google_compute_region_instance_group_manager.this.id

  autoscaling_policy {
    min_replicas    = var.replicas.min
    max_replicas    = var.replicas.max
    cooldown_period = var.health.initial_delay
    mode            = "ON"

    # Of two signals the larger wins. This one also holds when Pub/Sub's metric has a gap.
    cpu_utilization {
      target = var.cpu_target
    }

    dynamic "metric" {
      for_each = var.backlog == null ? [] : [var.backlog]

      content {
        name                       = "pubsub.googleapis.com/subscription/num_undelivered_messages"
        filter                     = "resource.type = pubsub_subscription AND resource.labels.subscription_id = ${metric.value.subscription}"
        single_instance_assignment = local.single_instance_assignment
      }
    }

    scale_in_control {
      time_window_sec = var.scale_in.seconds

      max_scaled_in_replicas {
        fixed = var.scale_in.replicas
      }
    }
  }

  lifecycle {
    replace_triggered_by = [google_compute_region_instance_group_manager.this.id]
  }
}
