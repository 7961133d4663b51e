"""What `loader check` looks at: settings together, the subscription, the database. Each gives plain findings.

The judging functions are pure; only the functions called inspect_… ask a server."""
