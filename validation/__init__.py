"""Accuracy of the simulation: simulated against measured, by data set, with trivial baselines.

A module per data set, each with ``validate(data: Path) -> tuple[Result, ...]``, registered in `validation.runner`.
"""
