"""The pattern in a matrix of mixes: which properties of tenants go with their slowdown."""
