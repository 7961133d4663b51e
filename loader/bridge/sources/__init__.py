"""Sources: where frames come from, and how far they may be committed."""
