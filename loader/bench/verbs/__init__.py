"""The verbs of `loader bench`, one module each.
A module has `register(app)` and loads what it needs when it runs."""
