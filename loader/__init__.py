"""Load JSON messages from Google Pub/Sub into Postgres: dlt infers and evolves the schema, COPY loads.

Data flows one way: pull → bundle → learn → copy → ack."""

__version__ = "0.1.0"
