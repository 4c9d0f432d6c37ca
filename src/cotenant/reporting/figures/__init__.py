"""Figures of a run as Vega-Lite specifications: records are reduced first, then pure functions build the specs."""
