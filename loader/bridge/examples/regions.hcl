# Two regions that mirror each other's orders, and one source that feeds production and staging.
#
#   loader bridge regions.hcl --plan --region us-east1 --environment prod

bridge {
  name = "regions"
}

endpoint "kafka" "orders-eu" {
  region      = "europe-west1"
  environment = "prod"
  brokers     = env("KAFKA_EU", "127.0.0.1:9092")
  topic       = "orders"
}

endpoint "kafka" "orders-us" {
  region      = "us-east1"
  environment = "prod"
  brokers     = env("KAFKA_US", "127.0.0.1:9093")
  topic       = "orders"
  tls         = true
  username    = "bridge"
  password    = secret("env:KAFKA_US_PASSWORD")
}

endpoint "kafka" "refused-eu" {
  region      = "europe-west1"
  environment = "prod"
  brokers     = env("KAFKA_EU", "127.0.0.1:9092")
  topic       = "refused"
}

endpoint "pubsub" "analytics" {
  region      = "europe-west1"
  environment = "prod"
  topic       = "projects/my-project/topics/orders"
}

endpoint "pubsub" "analytics-staging" {
  region      = "europe-west1"
  environment = "staging"
  topic       = "projects/my-staging/topics/orders"
}

# An order that came from the other side is not sent back: a header says where it has been.
mirror "orders" {
  between    = ["orders-eu", "orders-us"]
  on_refusal = "stop"
}

# Staging gets the same messages by a pipeline and a consumer of its own: its trouble is not production's.
replicate "analytics" {
  source      = "orders-eu"
  to          = ["analytics", "analytics-staging"]
  dead_letter = "refused-eu"
}

test "what came from America stays here" {
  pipeline = "orders.orders-us"

  input {
    headers = { bridge-trail = "orders-us,orders-eu" }
    value   = { id = 1 }
  }
}

test "what was ordered here goes to America" {
  pipeline = "orders.orders-us"

  input {
    value = { id = 2 }
  }

  expect {
    sink    = "orders-us"
    headers = { bridge-trail = "orders-eu,orders-us" }
    value   = { id = 2 }
  }
}
