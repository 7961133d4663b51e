"""Bundles: messages gathered by time, count or bytes, each loaded as one transaction.
`window` decides when one closes, `bundler` fills it from a puller."""
