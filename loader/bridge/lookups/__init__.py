"""Lookups: keyed state for conditions, fetched and refreshed in the background; the last good state stays."""
