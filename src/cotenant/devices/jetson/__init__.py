"""Jetson boards: rails, clocks and zones, read from the file system."""
