"""Model search as a workload: load a candidate, extract features, score them."""
