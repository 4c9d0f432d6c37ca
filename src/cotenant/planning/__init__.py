"""Decisions from measured profiles: which jobs run where, at which clock, beside which others. Pure."""
