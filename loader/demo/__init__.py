"""`loader demo`: the real worker on parts of its own, a shop's events, a live view and a receipt.

events → publisher → Pub/Sub → worker process → Postgres → progress (while it runs), survey and receipt (afterwards)."""
