output "bridge_group" {
  description = "Name of the bridge's instance group; null without a bridge."
  value       = one(module.bridge[*].name)
}

output "database" {
  description = "How the workers reach the database: host, port, database, user, sslmode, max_connections."
  value       = local.database
}

output "grants" {
  description = "What the owner of an existing database runs for the loader's user; null where the database is made here."
  value       = local.make_database ? null : local.grants
}

output "loader_group" {
  description = "Name of the loader's instance group."
  value       = module.loader.name
}

output "service_account" {
  description = "Address of the loader's service account; for an IAM login its database user is this without .gserviceaccount.com."
  value       = module.identity.email
}

output "single_instance_assignment" {
  description = "Backlog in messages for which the group has one VM more."
  value       = module.loader.single_instance_assignment
}

output "subscription" {
  description = "The subscription, projects/PROJECT/subscriptions/NAME."
  value       = module.subscription.id
}

output "topic" {
  description = "The topic to publish to, projects/PROJECT/topics/NAME."
  value       = module.subscription.topic
}
