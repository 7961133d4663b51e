"""Backfill: messages come a second time by a seek, aside by a subscription of their own, or from the raw column.

Orders to running workers are rows of `_backfills`; what became of the messages is counted in `_backfill_progress`."""
