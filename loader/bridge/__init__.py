"""The bridge: pipelines that take Kafka (and files, and Pub/Sub) to Pub/Sub and beyond, from one HCL file.

Data flows one way: consume → stages → publish → commit."""
