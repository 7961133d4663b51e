"""Deletes old bookkeeping in small transactions: load rows, receipts, resolved dead letters, schema versions, workers.
Never rows of events, open dead letters or the schema log."""
