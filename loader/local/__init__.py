"""Stand-ins for the cloud on this machine: an in-memory Pub/Sub server, the official emulator, Postgres.

For the demo, the benchmarks and the tests; a worker in production imports nothing from here."""
