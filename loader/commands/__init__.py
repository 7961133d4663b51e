"""The verbs of the command, one module each, with `register(app)`; heavy imports wait inside the verb's function.

options.py and output.py are shared by all of them."""
