"""Dead letters: messages that could not be loaded, kept whole with the reason, and what can be done with them."""
