"""What to do: who runs where, at which clock, beside whom. Pure: measured profiles in, decisions out."""
