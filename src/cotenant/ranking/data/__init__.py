"""Labelled items to rank models by: opened by name, read a batch at a time."""

from cotenant.ranking.data.sources import check_data, open_data

__all__ = ["check_data", "open_data"]
