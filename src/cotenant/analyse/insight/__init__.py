"""Patterns in a matrix of mixes: tenant properties that correlate with slowdown."""
