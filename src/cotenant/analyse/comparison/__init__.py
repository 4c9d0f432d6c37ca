"""Is it faster, slower or the same as before? Two runs, or a history of them."""
