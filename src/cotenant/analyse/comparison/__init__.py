"""Faster, slower or the same as before: two runs, or a history of runs."""
