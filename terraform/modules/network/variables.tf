variable "name" {
  description = "Name of what is made."
  type        = string
  nullable    = false
}

variable "nat" {
  description = "Whether to make a router with Cloud NAT: for VMs without external address that must reach more than Google's APIs, such as a Kafka elsewhere."
  type        = bool
  default     = false
  nullable    = false
}

variable "network" {
  description = "Network that is there, projects/PROJECT/global/networks/NAME."
  type        = string
  nullable    = false
}

variable "private_services_access" {
  description = "Whether to reserve a range and peer the network with Google's services, which a Cloud SQL with private address needs; false where the network has this already."
  type        = bool
  default     = false
  nullable    = false
}

variable "project_id" {
  description = "Project of the network."
  type        = string
  nullable    = false
}

variable "region" {
  description = "Region of the router."
  type        = string
  nullable    = false
}

variable "subnetwork" {
  description = "Subnetwork whose VMs go out through the NAT, projects/PROJECT/regions/REGION/subnetworks/NAME."
  type        = string
  nullable    = false
}
