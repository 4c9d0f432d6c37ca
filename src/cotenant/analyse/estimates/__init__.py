"""Estimates with intervals, and the tests behind them."""
