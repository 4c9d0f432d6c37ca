"""The largest batch that runs, and what each batch size costs."""
