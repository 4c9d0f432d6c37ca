"""Scorers: how well features separate the classes."""

from cotenant.ranking.scorers.finding import SCORERS, find_scorer

__all__ = ["SCORERS", "find_scorer"]
