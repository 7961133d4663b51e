variable "availability_type" {
  description = "ZONAL, or REGIONAL for a standby in another zone at twice the price."
  type        = string
  default     = "ZONAL"
  nullable    = false

  validation {
    condition     = contains(["ZONAL", "REGIONAL"], var.availability_type)
    error_message = "availability_type must be ZONAL or REGIONAL."
  }
}

variable "database" {
  description = "Name of the database."
  type        = string
  default     = "events"
  nullable    = false
}

variable "deletion_protection" {
  description = "Whether Terraform and the API refuse to delete the instance."
  type        = bool
  default     = true
  nullable    = false
}

variable "disk_gb" {
  description = "Size of the disk at the start; it grows by itself and never shrinks."
  type        = number
  default     = 50
  nullable    = false

  validation {
    condition     = var.disk_gb >= 10
    error_message = "disk_gb must be 10 or more."
  }
}

variable "disk_limit_gb" {
  description = "Size at which the disk stops growing; 0 is no limit of yours. At the limit the database refuses writes and the fleet waits."
  type        = number
  default     = 0
  nullable    = false

  validation {
    condition     = var.disk_limit_gb == 0 || var.disk_limit_gb >= var.disk_gb
    error_message = "disk_limit_gb must be 0 or at least disk_gb."
  }
}

variable "edition" {
  description = "ENTERPRISE, or ENTERPRISE_PLUS with a db-perf-optimized-* tier. From PostgreSQL 16 on Google's default is the dearer one."
  type        = string
  default     = "ENTERPRISE"
  nullable    = false

  validation {
    condition     = contains(["ENTERPRISE", "ENTERPRISE_PLUS"], var.edition)
    error_message = "edition must be ENTERPRISE or ENTERPRISE_PLUS."
  }
}

variable "labels" {
  description = "Labels of the instance."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "max_connections" {
  description = "Connections that the instance accepts; the fleet's size is checked against it."
  type        = number
  default     = 100
  nullable    = false

  validation {
    condition     = var.max_connections >= 20 && var.max_connections <= 10000
    error_message = "max_connections must be 20 to 10,000."
  }
}

variable "name" {
  description = "Name of the instance. A deleted instance's name is taken for a week."
  type        = string
  nullable    = false
}

variable "network" {
  description = "Network in which the instance has its private address; it must have private services access."
  type        = string
  nullable    = false
}

variable "postgres" {
  description = "Major version of PostgreSQL."
  type        = number
  default     = 17
  nullable    = false

  validation {
    condition     = var.postgres >= 16 && floor(var.postgres) == var.postgres
    error_message = "postgres must be 16 or later."
  }
}

variable "project_id" {
  description = "Project of the instance."
  type        = string
  nullable    = false
}

variable "region" {
  description = "Region of the instance."
  type        = string
  nullable    = false
}

variable "service_accounts" {
  description = "Addresses of the service accounts that log in by IAM and may create in the database, by a name of your choice."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "tier" {
  description = "Machine of the instance: db-custom-CPUS-MEGABYTES, or db-perf-optimized-N-CPUS for ENTERPRISE_PLUS."
  type        = string
  default     = "db-custom-2-8192"
  nullable    = false

  validation {
    condition     = startswith(var.tier, "db-perf-optimized-") == (var.edition == "ENTERPRISE_PLUS")
    error_message = "tier must be db-perf-optimized-* in the edition ENTERPRISE_PLUS, and any other in ENTERPRISE."
  }
}
