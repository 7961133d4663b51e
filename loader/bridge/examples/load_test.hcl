# A load test: a twentieth of the sessions, each message ten times with ids of its own, at most 5,000 a second.

endpoint "file" "recorded" {
  region      = "local"
  environment = "test"
  path        = env("RECORDED", "recorded.ndjson.gz")
}

endpoint "pubsub" "events" {
  region      = "local"
  environment = "test"
  topic       = "projects/local/topics/events"
}

pipeline "load-test" {
  source     = "recorded"
  sinks      = "events"
  on_refusal = "drop"

  stage "sample" {
    rate = 0.05
    by   = payload.session
  }

  stage "drop_fields" {
    fields = ["user.email", "user.phone"]
  }

  stage "multiply" {
    copies  = 10
    new_ids = "event_id"
  }

  stage "throttle" {
    rate = 5000
  }
}
