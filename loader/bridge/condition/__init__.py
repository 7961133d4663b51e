"""Conditions and values over a message: a small language, compiled to closures, that cannot do anything but read.

It reads key, headers, topic, payload fields and lookups; it has no loops, no assignment and no names of its own."""
