"""What a dataset and its fleet look like now, read from the database and, for the backlog, from Cloud Monitoring.
Reading only; the command, the status page and JSON show the same picture."""
