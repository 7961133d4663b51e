"""Stand-ins for the cloud on this machine: an in-memory Pub/Sub server, the official emulator, Postgres.

For the demo, the benchmarks and the tests; a worker in production imports nothing from here."""

import os

# gRPC's C core writes about forks past Python's logging; it reads this when it is first imported (as in pull.channel).
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
