"""Predictors of mixes for plans: the simulation in closed form and event by event, and measurements."""
