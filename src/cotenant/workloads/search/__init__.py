"""The feature-search pipeline as a workload: data, candidates, features, scores."""
