"""Carries out trials: tenant processes, common start, sampling, checks, resume."""
