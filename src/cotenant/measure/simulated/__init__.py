"""Trials on simulated devices: the same records, computed."""
