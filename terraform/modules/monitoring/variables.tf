variable "bridge" {
  description = "Name of the bridge's instance group, for the dashboard; null for none."
  type        = string
  default     = null
}

variable "channels" {
  description = "Notification channels of the alerts, projects/PROJECT/notificationChannels/ID; without one an alert shows in the console only."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "cloud_sql" {
  description = "Cloud SQL instance and the connections it accepts, for the connection alert and the dashboard; null for a database elsewhere."
  type = object({
    instance        = string
    max_connections = number
  })
  default = null
}

variable "fleet" {
  description = "Name of the loader's instance group and its most VMs."
  type = object({
    name         = string
    max_replicas = number
  })
  nullable = false
}

variable "name" {
  description = "Name in front of alerts, metrics and dashboard."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][-a-z0-9]*$", var.name))
    error_message = "name must be lower-case letters, digits and dashes."
  }
}

variable "project_id" {
  description = "Project of the alerts."
  type        = string
  nullable    = false
}

variable "subscription" {
  description = "Short name of the subscription."
  type        = string
  nullable    = false
}

variable "thresholds" {
  description = "When alerts open: age of the oldest unacked message in seconds, the share of the database's connections, minutes at the most VMs, messages of backlog below which nothing is expected to load, and minutes in which a backlog grows without a row."
  type = object({
    oldest_unacked_seconds = optional(number, 600)
    connection_share       = optional(number, 0.8)
    minutes_at_maximum     = optional(number, 15)
    backlog_messages       = optional(number, 1000)
    minutes_without_rows   = optional(number, 10)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.thresholds.oldest_unacked_seconds >= 120 && var.thresholds.connection_share > 0 && var.thresholds.connection_share < 1 && var.thresholds.minutes_at_maximum >= 5 && var.thresholds.minutes_without_rows >= 5 && var.thresholds.backlog_messages >= 1
    error_message = "thresholds: oldest_unacked_seconds 120 or more (metrics lag by 2 minutes), connection_share between 0 and 1, minutes 5 or more, backlog_messages 1 or more."
  }
}
