"""Labelled items to rank models by: opened by name, read a batch at a time."""

from cotenant.workloads.search.data.opening import open_data

__all__ = ["open_data"]
