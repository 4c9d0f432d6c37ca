"""The largest batch that runs, and the cost of each batch size."""
