"""Formats: how a payload is read into fields and written again. One file each."""
