output "user_data" {
  description = "The cloud-config for the VMs' metadata key user-data."
  value       = local.user_data

  precondition {
    condition     = local.user_data_bytes <= 262144
    error_message = "The start-up file has ${local.user_data_bytes} bytes, and a metadata value holds 262,144: shorten the bridge's HCL file (the rest takes about 8,000 bytes)."
  }
}
