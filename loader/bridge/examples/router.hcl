# A router: orders and page views from Kafka to Pub/Sub. One file for all regions and environments: each instance
# runs the pipelines whose source is in its own region and environment.
#
#   loader bridge router.hcl --check
#   loader bridge router.hcl --plan --region europe-west1 --environment prod
#   loader bridge router.hcl --explain order.json
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

# Customers to leave out, read again every 30 seconds; an http or sql block would fetch them from elsewhere.
lookup "blocked" {
  refresh = "30s"

  file {
    path = env("BLOCKED_CUSTOMERS", "blocked.json") # beside this file, or where the bridge runs: ["17", "23"]
  }
}

pipeline "events" {
  source      = "events"
  sinks       = ["orders", "views"]
  dead_letter = "refused"

  stage "filter" {
    when = headers.test == null && !has(lookup.blocked[payload.customer])
  }

  stage "route" {
    rule {
      when = payload.event == "order" && payload.amount > 0
      to   = "orders"
    }
    rule {
      when = startswith(payload.event, "page.")
      to   = "views"
    }
  }

  stage "set" {
    headers = { table = payload.event == "order" ? "orders" : "page_views" }
  }
}

test "an order goes to orders" {
  pipeline = "events"

  input {
    value = { event = "order", customer = 5, amount = 12.5 }
  }

  expect {
    sink    = "orders"
    value   = { event = "order", customer = 5, amount = 12.5 }
    headers = { table = "orders" }
  }
}

test "a blocked customer is left out, and so is a test message" {
  pipeline = "events"
  lookups  = { blocked = { "17" = "17" } }

  input {
    value = { event = "page.view", customer = 17 }
  }
  input {
    headers = { test = "1" }
    value   = { event = "page.view", customer = 5 }
  }
}

test "what is not JSON is refused" {
  pipeline = "events"

  input {
    value = "{"
  }

  expect {
    refused = "not JSON"
  }
}
