variable "alerts" {
  description = "Notification channels of the alerts (projects/P/notificationChannels/ID), and thresholds as the module monitoring has them; null for neither alerts nor dashboard."
  type = object({
    channels = optional(list(string), [])
    thresholds = optional(object({
      oldest_unacked_seconds = optional(number, 600)
      connection_share       = optional(number, 0.8)
      minutes_at_maximum     = optional(number, 15)
      backlog_messages       = optional(number, 1000)
      minutes_without_rows   = optional(number, 10)
    }), {})
  })
  default = {}
}

variable "bridge" {
  description = "A second fleet that runs `loader bridge` with this HCL text; null for none. It scales on CPU between min and max, which may not exceed partitions. publish_topics are those of its sinks besides the loader's own topic (projects/P/topics/T), environment is the part of the file that it runs, secrets are files under /run/secrets."
  type = object({
    config           = string
    partitions       = number
    environment      = optional(string, "prod")
    min              = optional(number, 1)
    max              = optional(number, 4)
    machine_type     = optional(string, "e2-small")
    spot             = optional(bool, true)
    cpu_target       = optional(number, 0.6)
    publish_topics   = optional(map(string), {})
    settings         = optional(map(string), {})
    secrets          = optional(map(string), {})
    shutdown_seconds = optional(number, 20)
  })
  default = null
}

variable "cloud_sql" {
  description = "The Cloud SQL for PostgreSQL that is made where existing_database is null. private_services_access = false where the network has been peered with Google's services before."
  type = object({
    tier                    = optional(string, "db-custom-2-8192")
    edition                 = optional(string, "ENTERPRISE")
    postgres                = optional(number, 17)
    availability_type       = optional(string, "ZONAL")
    disk_gb                 = optional(number, 50)
    disk_limit_gb           = optional(number, 0)
    database                = optional(string, "events")
    max_connections         = optional(number, 100)
    deletion_protection     = optional(bool, true)
    private_services_access = optional(bool, true)
  })
  default  = {}
  nullable = false
}

variable "existing_database" {
  description = "A Postgres that is there. Password login: host, user and password_secret (projects/P/secrets/S). IAM login to Cloud SQL: host alone, or connection_name (PROJECT:REGION:NAME) to go through the Cloud SQL Auth Proxy; make the user and run the output `grants`."
  type = object({
    host            = optional(string)
    port            = optional(number, 5432)
    database        = string
    user            = optional(string)
    password_secret = optional(string)
    connection_name = optional(string)
    sslmode         = optional(string, "require")
    max_connections = number
  })
  default = null

  validation {
    condition     = var.existing_database == null ? true : (var.existing_database.host == null) != (var.existing_database.connection_name == null)
    error_message = "existing_database needs either host, or connection_name for the Cloud SQL Auth Proxy."
  }

  validation {
    condition     = var.existing_database == null ? true : (var.existing_database.user == null) == (var.existing_database.password_secret == null)
    error_message = "existing_database needs user and password_secret together, or neither for an IAM login."
  }

  validation {
    condition     = var.existing_database == null ? true : var.existing_database.connection_name == null || var.existing_database.password_secret == null
    error_message = "existing_database.connection_name goes through the proxy, which logs in by IAM: leave out user and password_secret, or give host."
  }

  validation {
    condition     = var.existing_database == null ? true : var.existing_database.password_secret == null ? true : can(regex("^projects/[^/]+/secrets/[^/]+$", var.existing_database.password_secret))
    error_message = "existing_database.password_secret must read projects/PROJECT/secrets/NAME."
  }

  validation {
    condition     = var.existing_database == null ? true : contains(["disable", "allow", "prefer", "require", "verify-ca", "verify-full"], var.existing_database.sslmode)
    error_message = "existing_database.sslmode must be one of libpq's: disable, allow, prefer, require, verify-ca, verify-full."
  }
}

variable "image" {
  description = "Image of the loader in Artifact Registry, REGION-docker.pkg.dev/PROJECT/REPOSITORY/NAME with :TAG or @sha256:DIGEST."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9-]+-docker\\.pkg\\.dev/[a-z0-9-]+/[a-z0-9-]+/[a-z0-9/._-]+(:[A-Za-z0-9._-]+|@sha256:[0-9a-f]{64})$", var.image))
    error_message = "image must read REGION-docker.pkg.dev/PROJECT/REPOSITORY/NAME with :TAG or @sha256:DIGEST."
  }
}

variable "labels" {
  description = "Labels of everything that takes labels."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "logs" {
  description = "agent: Container-Optimized OS's logging agent ships the workers' lines; api: the workers send them themselves, for a few percent of CPU."
  type        = string
  default     = "agent"
  nullable    = false

  validation {
    condition     = contains(["agent", "api"], var.logs)
    error_message = "logs must be agent or api."
  }
}

variable "name" {
  description = "Name in front of everything that is made."
  type        = string
  default     = "loader"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]([-a-z0-9]{4,20}[a-z0-9])$", var.name))
    error_message = "name must be 6 to 22 lower-case letters, digits and dashes, and start with a letter: names of service accounts and templates come of it."
  }
}

variable "network" {
  description = "Network and subnetwork in the region that are there, by name, or project in project where a shared VPC is in another one. nat = true makes a router with Cloud NAT; without it the subnetwork must have Private Google Access."
  type = object({
    network    = optional(string, "default")
    subnetwork = optional(string, "default")
    project    = optional(string)
    nat        = optional(bool, false)
  })
  default  = {}
  nullable = false
}

variable "operators" {
  description = "IAM members who may seek, snapshot and watch (`loader backfill`, `snapshot`, `status`), such as group:data@example.com: pubsub.editor and monitoring.viewer on the project."
  type        = set(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for m in var.operators : can(regex("^(user|group|serviceAccount|domain|principal|principalSet):.+$", m))])
    error_message = "operators must be IAM members such as group:data@example.com."
  }
}

variable "project_id" {
  description = "Project in which everything is made."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][-a-z0-9]{4,28}[a-z0-9]$", var.project_id))
    error_message = "project_id must be the id of a project: 6 to 30 lower-case letters, digits and dashes."
  }
}

variable "region" {
  description = "Region in which everything is made, such as europe-west1."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "region must be one such as europe-west1 (a zone has a letter more)."
  }
}

variable "scrape_ranges" {
  description = "IPv4 ranges from which Prometheus may scrape the VMs' HTTP port, such as [\"10.10.0.0/16\"]; Google's health checks may always."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "settings" {
  description = "Settings of the loader, LOADER_* names to values, such as { LOADER_TABLE_KEY = \"type\" }. Those that this module sets are refused."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for k in keys(var.settings) : startswith(k, "LOADER_")])
    error_message = "settings takes LOADER_* names."
  }

  validation {
    condition = length(setintersection(keys(var.settings), [
      "LOADER_SUBSCRIPTION", "LOADER_DATABASE_URL", "LOADER_IAM_AUTH", "LOADER_PROCESSES", "LOADER_HTTP_HOST", "LOADER_HTTP_PORT",
      "LOADER_SHUTDOWN_SECONDS", "LOADER_LOG_TO", "LOADER_MAX_BUNDLE_MESSAGES", "LOADER_MAX_OUTSTANDING_MESSAGES", "LOADER_HTTP_TOKEN",
    ])) == 0
    error_message = "settings may hold neither a secret nor what the module sets: the subscription, the database, the HTTP server, LOADER_LOG_TO (variable logs), LOADER_PROCESSES, LOADER_MAX_BUNDLE_MESSAGES, LOADER_MAX_OUTSTANDING_MESSAGES and LOADER_SHUTDOWN_SECONDS (variable workers)."
  }
}

variable "subscription" {
  description = "Subscription to make, and its topic unless topic (projects/P/topics/T) says one that is there. name is of both. publishers are IAM members who publish, by a name of your choice."
  type = object({
    name           = optional(string, "events")
    topic          = optional(string)
    retention_days = optional(number, 7)
    exactly_once   = optional(bool, false)
    publishers     = optional(map(string), {})
    dead_letter = optional(object({
      topic                 = string
      max_delivery_attempts = optional(number, 100)
    }))
  })
  default  = {}
  nullable = false
}

variable "workers" {
  description = "The loader's fleet: VMs at least (min) and at most (max), standard ones that are always there besides (standard_floor), what one VM loads a second and how fast a backlog should be gone (the autoscaler's inputs), processes a VM, bundle size, connections kept free for others (reserved_connections)."
  type = object({
    min                  = optional(number, 2)
    max                  = optional(number, 10)
    standard_floor       = optional(number, 0)
    spot                 = optional(bool, true)
    machine_type         = optional(string, "e2-small")
    zones                = optional(list(string), [])
    messages_per_second  = optional(number, 3000)
    drain_seconds        = optional(number, 60)
    processes            = optional(number, 1)
    max_bundle_messages  = optional(number, 20000)
    cpu_target           = optional(number, 0.7)
    scale_in_replicas    = optional(number, 1)
    scale_in_seconds     = optional(number, 300)
    shutdown_seconds     = optional(number, 20)
    reserved_connections = optional(number, 20)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.workers.processes >= 1 && floor(var.workers.processes) == var.workers.processes && var.workers.max_bundle_messages >= 1
    error_message = "workers.processes and workers.max_bundle_messages must be whole numbers of 1 or more."
  }

  validation {
    condition     = var.workers.standard_floor >= 0 && floor(var.workers.standard_floor) == var.workers.standard_floor
    error_message = "workers.standard_floor must be a whole number of 0 or more."
  }

  # A rolling update has old and new VMs side by side, as many more as there are zones.
  validation {
    condition = (
      (var.workers.max + var.workers.standard_floor + max(3, length(var.workers.zones)) * (var.workers.standard_floor > 0 ? 2 : 1)) * var.workers.processes
      * (contains(keys(var.settings), "LOADER_DEAD_LETTER_TOPIC") ? 3 : 2) + var.workers.reserved_connections
      <= (var.existing_database != null ? var.existing_database.max_connections : var.cloud_sql.max_connections)
    )
    error_message = "The fleet could open more connections than the database accepts: (workers.max + workers.standard_floor + 3 VMs, or as many as zones, during an update of each group) × workers.processes × 2 connections (3 with LOADER_DEAD_LETTER_TOPIC) + workers.reserved_connections must not exceed max_connections. Lower workers.max or raise max_connections."
  }
}
