variable "arguments" {
  description = "Arguments of the image: [\"run\"] is the loader, [\"bridge\", \"/etc/loader/bridge.hcl\"] the bridge."
  type        = list(string)
  default     = ["run"]
  nullable    = false

  validation {
    condition     = length(var.arguments) > 0 && alltrue([for a in var.arguments : can(regex("^[A-Za-z0-9._/=-]+$", a))])
    error_message = "arguments must be words of letters, digits and . _ / = -: they stand in a systemd unit as they are."
  }
}

variable "environment" {
  description = "Environment of the container, names to values. It is readable on the VM and in the state: no secrets."
  type        = map(string)
  nullable    = false

  validation {
    condition     = alltrue([for k, v in var.environment : can(regex("^[A-Z][A-Z0-9_]*$", k)) && !can(regex("[\\r\\n]", v))])
    error_message = "environment takes NAMES_LIKE_THIS and values of one line: Docker reads them from a file of lines."
  }

  validation {
    condition     = alltrue([for k, v in var.environment : !can(regex("PASSWORD|HTTP_TOKEN|SECRET", k)) && !can(regex("://[^/@]*:[^/@]+@", v))])
    error_message = "environment holds a password or token, which would be readable in metadata and state: put it into Secret Manager and name it in secrets."
  }
}

variable "files" {
  description = "Files to put under /etc/loader in the container, names to contents, such as the bridge's HCL file."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for name in keys(var.files) : can(regex("^[A-Za-z0-9][A-Za-z0-9._-]*$", name))])
    error_message = "files takes plain file names, without folders."
  }
}

variable "health" {
  description = "Port of the worker's HTTP server, and the ranges that the host's firewall lets in to it."
  type = object({
    port   = number
    ranges = list(string)
  })
  nullable = false

  validation {
    condition     = var.health.port >= 1024 && var.health.port <= 65535 && alltrue([for r in var.health.ranges : can(cidrnetmask(r))])
    error_message = "health.port must be 1024 to 65535 (the worker is not root), health.ranges IPv4 ranges such as 10.0.0.0/8."
  }
}

variable "image" {
  description = "Container image in Artifact Registry, REGION-docker.pkg.dev/PROJECT/REPOSITORY/NAME:TAG or @sha256:DIGEST."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9-]+-docker\\.pkg\\.dev/[a-z0-9:.-]+/[a-z0-9-]+/[a-z0-9/._-]+(:[A-Za-z0-9._-]+|@sha256:[0-9a-f]{64})$", var.image))
    error_message = "image must read REGION-docker.pkg.dev/PROJECT/REPOSITORY/NAME with :TAG or @sha256:DIGEST."
  }
}

variable "proxy" {
  description = "Cloud SQL Auth Proxy on 127.0.0.1:5432: its image and the instance, PROJECT:REGION:NAME; null for none."
  type = object({
    image    = string
    instance = string
  })
  default = null

  validation {
    condition     = var.proxy == null ? true : can(regex("^[A-Za-z0-9./:@_-]+$", var.proxy.image)) && can(regex("^[a-z0-9.:-]+:[a-z0-9-]+:[a-z0-9-]+$", var.proxy.instance))
    error_message = "proxy.image must be an image, proxy.instance a connection name PROJECT:REGION:NAME."
  }
}

variable "secrets" {
  description = "Secret versions to write to /run/secrets in the container (a tmpfs), file names to projects/P/secrets/S/versions/V. The file pgpass becomes one that libpq reads."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition = alltrue([
      for name, version in var.secrets :
      can(regex("^[A-Za-z0-9][A-Za-z0-9._-]*$", name)) && can(regex("^projects/[^/]+/secrets/[^/]+/versions/[^/]+$", version))
    ])
    error_message = "secrets takes plain file names and versions that read projects/P/secrets/S/versions/latest."
  }
}

variable "shutdown" {
  description = "Seconds from SIGTERM to exit that the worker may take, and seconds that the VM has in all: 30 on spot, 120 on standard VMs."
  type = object({
    worker_seconds  = number
    machine_seconds = number
  })
  default  = { worker_seconds = 20, machine_seconds = 30 }
  nullable = false

  validation {
    condition     = var.shutdown.worker_seconds >= 1 && floor(var.shutdown.worker_seconds) == var.shutdown.worker_seconds && var.shutdown.worker_seconds + 8 <= var.shutdown.machine_seconds
    error_message = "shutdown.worker_seconds must be a whole number and leave 8 of the machine's seconds: 3 until Docker kills, 1 until systemd does, 3 for the proxy and 1 for the system (at most 22 on spot)."
  }
}
