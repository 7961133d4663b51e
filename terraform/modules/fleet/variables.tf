variable "backlog" {
  description = "Scaling by a subscription's backlog; null scales by CPU alone. messages_per_second is what one VM loads, drain_seconds how fast a backlog should be gone, held_messages what one VM may hold under flow control."
  type = object({
    subscription        = string
    messages_per_second = number
    drain_seconds       = number
    held_messages       = number
  })
  default = null

  validation {
    condition     = var.backlog == null ? true : can(regex("^[A-Za-z][A-Za-z0-9._~+%-]{2,254}$", var.backlog.subscription))
    error_message = "backlog.subscription must be the short name of the subscription, not projects/P/subscriptions/S: the metric's filter takes that."
  }

  validation {
    condition     = var.backlog == null ? true : var.backlog.messages_per_second > 0 && var.backlog.drain_seconds > 0
    error_message = "backlog.messages_per_second and backlog.drain_seconds must be above 0."
  }

  validation {
    condition     = var.backlog == null ? true : var.backlog.messages_per_second * var.backlog.drain_seconds > var.backlog.held_messages
    error_message = "backlog.messages_per_second × backlog.drain_seconds must exceed backlog.held_messages: the backlog counts messages that workers hold, so the group would grow on what its own workers have taken. Lengthen drain_seconds or lower LOADER_MAX_OUTSTANDING_MESSAGES."
  }
}

variable "boot_image" {
  description = "Container-Optimized OS of the VMs; null is the newest stable one for the machine type's processor."
  type        = string
  default     = null
}

variable "container" {
  description = "What the VMs run, as the module startup takes it: image, arguments, environment, files under /etc/loader, secrets under /run/secrets, Cloud SQL Auth Proxy, and seconds from SIGTERM to exit."
  type = object({
    image            = string
    arguments        = optional(list(string), ["run"])
    environment      = map(string)
    files            = optional(map(string), {})
    secrets          = optional(map(string), {})
    proxy            = optional(object({ image = string, instance = string }))
    shutdown_seconds = optional(number, 20)
  })
  nullable = false
}

variable "cpu_target" {
  description = "CPU use, 0 to 1, at which the group grows."
  type        = number
  default     = 0.7
  nullable    = false

  validation {
    condition     = var.cpu_target > 0 && var.cpu_target <= 1
    error_message = "cpu_target must be above 0 and at most 1."
  }
}

variable "disk_gb" {
  description = "Size of the boot disk."
  type        = number
  default     = 10
  nullable    = false

  validation {
    condition     = var.disk_gb >= 10
    error_message = "disk_gb must be 10 or more."
  }
}

variable "health" {
  description = "Port of /healthz, and seconds that a new VM has before it counts (boot, image pull and start). scrape_ranges may reach the port as well, for Prometheus."
  type = object({
    port          = optional(number, 8080)
    initial_delay = optional(number, 300)
    scrape_ranges = optional(list(string), [])
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.health.initial_delay >= 120 && var.health.initial_delay <= 3600
    error_message = "health.initial_delay must be 120 to 3,600: a VM that is healed while it pulls its image never starts."
  }

  validation {
    condition     = alltrue([for r in var.health.scrape_ranges : can(cidrnetmask(r)) && !endswith(r, "/0")])
    error_message = "health.scrape_ranges must be IPv4 ranges such as 10.0.0.0/8, not the whole internet."
  }
}

variable "labels" {
  description = "Labels of the VMs."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "machine_type" {
  description = "Machine type of the VMs."
  type        = string
  default     = "e2-small"
  nullable    = false
}

variable "metadata" {
  description = "Metadata of the VMs besides the module's own, such as the bridge's `environment`. Readable on the VM: no secrets."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = length(setintersection(keys(var.metadata), ["user-data", "gce-container-declaration", "startup-script"])) == 0
    error_message = "metadata may not hold user-data, startup-script or gce-container-declaration (whose agent stopped working on 31 July 2026): the start-up file says what a VM runs."
  }
}

variable "name" {
  description = "Name of the group and of what belongs to it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]([-a-z0-9]{0,35}[a-z0-9])?$", var.name))
    error_message = "name must be at most 37 lower-case letters, digits and dashes (the template's name gets 26 more), and start with a letter."
  }
}

variable "network" {
  description = "Network of the VMs."
  type        = string
  nullable    = false
}

variable "partitions" {
  description = "Partitions of the topic that the group consumes, for a bridge: a consumer more than partitions would idle. Null where there are none."
  type        = number
  default     = null

  validation {
    condition     = var.partitions == null ? true : var.replicas.max <= var.partitions
    error_message = "replicas.max must not exceed the partitions: Kafka gives the consumers beyond them nothing to read."
  }

  validation {
    condition     = var.partitions == null || var.backlog == null
    error_message = "A group that produces a backlog must not grow with it: scale the bridge by CPU (backlog = null)."
  }
}

variable "project_id" {
  description = "Project of the VMs."
  type        = string
  nullable    = false
}

variable "region" {
  description = "Region of the group."
  type        = string
  nullable    = false
}

variable "replicas" {
  description = "VMs at least and at most. A minimum of 0 costs nothing while idle and 3 to 6 minutes for the first message."
  type = object({
    min = number
    max = number
  })
  nullable = false

  validation {
    condition     = var.replicas.min >= 0 && var.replicas.max >= 1 && var.replicas.min <= var.replicas.max
    error_message = "replicas.min must be 0 or more and at most replicas.max, which must be 1 or more."
  }
}

variable "scale_in" {
  description = "VMs that the group may lose at most in each window of seconds: a gap in the metric must not empty it."
  type = object({
    replicas = optional(number, 1)
    seconds  = optional(number, 300)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.scale_in.replicas >= 1 && var.scale_in.seconds >= 60 && var.scale_in.seconds <= 3600
    error_message = "scale_in.replicas must be 1 or more, scale_in.seconds 60 to 3,600."
  }
}

variable "service_account" {
  description = "Address of the service account of the VMs."
  type        = string
  nullable    = false
}

variable "spot" {
  description = "Spot VMs at a fraction of the price, which Google takes back with 30 s of warning; false for standard ones."
  type        = bool
  default     = true
  nullable    = false
}

variable "subnetwork" {
  description = "Subnetwork of the VMs."
  type        = string
  nullable    = false
}

variable "zones" {
  description = "Zones of the group; empty lets Google choose three."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for z in var.zones : startswith(z, "${var.region}-")])
    error_message = "zones must lie in the region."
  }
}
