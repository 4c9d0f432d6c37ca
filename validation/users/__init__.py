"""Data sets through the product as a user drives it: studies on `sim:` devices, row by row."""
