output "instance_group" {
  description = "The instance group, for other tools."
  value       = google_compute_region_instance_group_manager.this.instance_group
}

output "name" {
  description = "Name of the managed instance group."
  value       = google_compute_region_instance_group_manager.this.name
}

output "single_instance_assignment" {
  description = "Backlog in messages for which the group has one VM more; null when it scales by CPU alone."
  value       = local.single_instance_assignment
}
