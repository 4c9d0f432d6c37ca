"""Pure functions from observations to estimates: statistics, slowdown, fairness."""
