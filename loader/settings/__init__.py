"""Every setting of the loader, declared once: name, type, default and the reason for it.

declaration.py declares, sizes.py and contract.py parse, limits.py compares, environment.py reads."""
