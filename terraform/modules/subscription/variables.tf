variable "consumers" {
  description = "IAM members that load the subscription, by a name of your choice: they get pubsub.subscriber and pubsub.viewer on it."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "dead_letter" {
  description = "Dead-letter policy of the subscription; null (the default) for none. It counts deliveries, and preemptions are deliveries: a letter may be a good message, which is loaded as well."
  type = object({
    topic                 = string
    max_delivery_attempts = optional(number, 100)
  })
  default = null

  validation {
    condition     = var.dead_letter == null ? true : can(regex("^projects/[^/]+/topics/[^/]+$", var.dead_letter.topic))
    error_message = "dead_letter.topic must read projects/PROJECT/topics/NAME."
  }

  validation {
    condition     = var.dead_letter == null ? true : var.dead_letter.max_delivery_attempts >= 5 && var.dead_letter.max_delivery_attempts <= 100
    error_message = "dead_letter.max_delivery_attempts must be 5 to 100."
  }
}

variable "exactly_once" {
  description = "Exactly-once delivery of the subscription. Not needed: the loader stores each event once either way, and it costs throughput."
  type        = bool
  default     = false
  nullable    = false
}

variable "labels" {
  description = "Labels of topic and subscription."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "name" {
  description = "Name of the subscription; also of the topic if one is made."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9._~+%-]{2,254}$", var.name)) && !startswith(var.name, "goog")
    error_message = "name must be 3 to 255 letters, digits and . _ ~ + % -, start with a letter and not with goog."
  }
}

variable "project_id" {
  description = "Project of topic and subscription."
  type        = string
  nullable    = false
}

variable "publishers" {
  description = "IAM members that publish to the topic that is made, by a name of your choice."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "retention_days" {
  description = "Days for which the topic keeps every message, acked or not: how far back a backfill can reach."
  type        = number
  default     = 7
  nullable    = false

  validation {
    condition     = var.retention_days >= 1 && var.retention_days <= 31
    error_message = "retention_days must be 1 to 31."
  }
}

variable "topic" {
  description = "Topic that is there already, projects/PROJECT/topics/NAME, whose retention is then yours to set; null makes one."
  type        = string
  default     = null

  validation {
    condition     = var.topic == null ? true : can(regex("^projects/[^/]+/topics/[^/]+$", var.topic))
    error_message = "topic must read projects/PROJECT/topics/NAME."
  }

  validation {
    condition     = var.topic == null || length(var.publishers) == 0
    error_message = "publishers are for the topic that is made; grant pubsub.publisher on your own topic where it is made."
  }
}
