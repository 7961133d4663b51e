"""Messages in, acks out: raw gRPC on Pub/Sub's plain protobuf classes, below the convenience client.
The worker uses `puller.Puller`; other commands use `channel` and `subscription`."""
