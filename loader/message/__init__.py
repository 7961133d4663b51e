"""A Pub/Sub message becomes events: inflated, parsed, identified and routed to a table.

Plain functions on plain data; nothing here does I/O."""
