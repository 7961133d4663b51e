"""Feeds made up for demo, tests and benchmarks: realistic, and the same each time for the same seed.
A feed is told from a real one by nobody downstream."""
