# A router: orders and page views from Kafka to Pub/Sub. One file for all regions and environments: each instance
# runs the pipelines whose source is in its own region and environment.
#
#   loader bridge router.hcl --check
#   loader bridge router.hcl --plan --region europe-west1 --environment prod
#   loader bridge test router.hcl

endpoint "kafka" "events" {
  region      = "europe-west1"
  environment = "prod"
  brokers     = env("KAFKA_BROKERS", "127.0.0.1:9092")
  topic       = "events"
}

endpoint "pubsub" "orders" {
  region      = "europe-west1"
  environment = "prod"
  topic       = "projects/${env("GOOGLE_CLOUD_PROJECT", "local")}/topics/orders"
}

endpoint "pubsub" "views" {
  region      = "europe-west1"
  environment = "prod"
  topic       = "projects/${env("GOOGLE_CLOUD_PROJECT", "local")}/topics/views"
}

endpoint "pubsub" "refused" {
  region      = "europe-west1"
  environment = "prod"
  topic       = "projects/${env("GOOGLE_CLOUD_PROJECT", "local")}/topics/bridge-refused"
}

pipeline "events" {
  source      = "events"
  sinks       = ["orders", "views"]
  dead_letter = "refused"

  stage "filter" {
    when = payload.test != true
  }
}
