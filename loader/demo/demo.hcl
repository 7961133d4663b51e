# What the demo runs between Kafka and Pub/Sub: a router for page views, and the GPS feed.

bridge {
  name = "demo"
}

endpoint "kafka" "page_views" {
  region      = "demo"
  environment = "demo"
  brokers     = env("DEMO_BROKERS")
  topic       = "page-views"
  properties  = { "fetch.wait.max.ms" = 20, "session.timeout.ms" = 6000 }
}

endpoint "kafka" "gps" {
  region      = "demo"
  environment = "demo"
  brokers     = env("DEMO_BROKERS")
  topic       = "gps"
  properties  = { "fetch.wait.max.ms" = 20, "session.timeout.ms" = 6000 }
}

endpoint "pubsub" "events" {
  region      = "demo"
  environment = "demo"
  topic       = env("DEMO_TOPIC")
}

pipeline "router" {
  source     = "page_views"
  sinks      = ["events"]
  on_refusal = "stop"

  stage "filter" {
    when = payload.type == "page_viewed"
  }
}

pipeline "gps" {
  source     = "gps"
  sinks      = ["events"]
  on_refusal = "stop"

  format "avro" {
    registry = env("DEMO_REGISTRY")
    subject  = "gps-value"
  }

  stage "flatten" {
    each  = "path"
    raw   = "path"
    table = "gps_links"
  }
}
