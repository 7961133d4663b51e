"""The schema registry: its client, the schemas that it gives, and a small server for demo and tests.
Speaks the HTTP interface that Confluent's registry made common."""
