"""How far to trust the simulation: simulated beside measured, data set by data set, with trivial baselines.

One module per data set, each with ``validate(data: Path) -> tuple[Result, ...]``, registered in `validation.runner`.
"""
