"""The engine: runs pipelines, bounds what is in flight, commits what was confirmed, and stops in order."""
