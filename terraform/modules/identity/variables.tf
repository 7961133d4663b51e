variable "cloud_sql" {
  description = "Whether this account logs in to Cloud SQL: it gets cloudsql.client and cloudsql.instanceUser on the project."
  type        = bool
  default     = false
  nullable    = false
}

variable "image" {
  description = "Image that the VMs pull; the account may read its repository."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9-]+-docker\\.pkg\\.dev/[^/]+/[^/]+/[^/]+", var.image))
    error_message = "image must read REGION-docker.pkg.dev/PROJECT/REPOSITORY/NAME:TAG."
  }
}

variable "name" {
  description = "Name of the service account."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][-a-z0-9]{4,28}[a-z0-9]$", var.name))
    error_message = "name must be 6 to 30 lower-case letters, digits and dashes, and start with a letter."
  }
}

variable "project_id" {
  description = "Project of the service account."
  type        = string
  nullable    = false
}

variable "publish_topics" {
  description = "Topics to which the account publishes, by a name of your choice, projects/PROJECT/topics/NAME: for the bridge and the dead-letter export only."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for t in values(var.publish_topics) : can(regex("^projects/[^/]+/topics/[^/]+$", t))])
    error_message = "publish_topics must read projects/PROJECT/topics/NAME."
  }
}

variable "secrets" {
  description = "Secrets that the account may read, by a name of your choice, projects/PROJECT/secrets/NAME."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for s in values(var.secrets) : can(regex("^projects/[^/]+/secrets/[^/]+$", s))])
    error_message = "secrets must read projects/PROJECT/secrets/NAME."
  }
}
