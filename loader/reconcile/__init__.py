"""Compares what independent sources say of a dataset: receipts, tables, Kafka offsets, lists of ids, the topic.
Reading only; each module has one comparison, which yields gaps."""
