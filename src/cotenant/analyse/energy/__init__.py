"""Accuracy of power and energy readings, and energy over a time span."""
