"""How large a batch fits, and how large a batch pays."""
