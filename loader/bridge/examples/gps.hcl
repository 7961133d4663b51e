# Navigation records from Kafka, one row for each road link in Postgres.
#
# The loader that takes them on: LOADER_TABLE_ATTRIBUTE=table LOADER_EVENT_ID_ATTRIBUTE=event_id LOADER_JSON_KEYS=path

bridge {
  name = "gps"
}

endpoint "kafka" "records" {
  region      = env("BRIDGE_REGION", "local")
  environment = env("BRIDGE_ENVIRONMENT", "dev")
  brokers     = env("GPS_BROKERS", "127.0.0.1:9092")
  topic       = env("GPS_KAFKA_TOPIC", "gps")

  # Real time is the point: an answer of 1 KiB is enough, and none waits for longer than 100 ms.
  properties = {
    "fetch.min.bytes"   = 1024
    "fetch.wait.max.ms" = 100
  }
}

endpoint "pubsub" "links" {
  region         = env("BRIDGE_REGION", "local")
  environment    = env("BRIDGE_ENVIRONMENT", "dev")
  topic          = env("GPS_TOPIC", "projects/local/topics/gps-links")
  batch_messages = 1000
  batch_bytes    = "1MB"
}

endpoint "pubsub" "dead_letters" {
  region      = env("BRIDGE_REGION", "local")
  environment = env("BRIDGE_ENVIRONMENT", "dev")
  topic       = env("GPS_DEAD_TOPIC", "projects/local/topics/gps-dead")
}

pipeline "gps" {
  source      = "records"
  sinks       = ["links"]
  dead_letter = "dead_letters"
  linger      = "20ms"

  format "avro" {
    registry = env("GPS_REGISTRY", "http://127.0.0.1:8081")
    subject  = "gps-value"
  }

  # Every field of the record and of the link becomes a column, new ones as soon as somebody writes them; the whole
  # link is kept beside them, so that a column can be filled later for rows that came before it.
  stage "flatten" {
    each = "path"
    raw  = "path"
    rename = {
      "deviceId"  = "device_id"
      "tripId"    = "trip_id"
      "sentAt"    = "sent_at"
      "linkId"    = "link_id"
      "enteredAt" = "entered_at"
      "leftAt"    = "left_at"
    }
    table = "gps_links"
  }
}
