"""Stages: one file each, registered by name, documented from its own declaration."""
