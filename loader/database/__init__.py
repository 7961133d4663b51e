"""The database as others reach it: conninfo.py reads where it is, connection.py opens connections to it.

Nothing here knows what is stored."""
