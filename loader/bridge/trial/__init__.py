"""Runs pipelines on paper: no broker, no sink, no clock; for `test` blocks and for `--explain`.

The stages are the real ones; lookups say what the test says, and waiting takes no time."""
