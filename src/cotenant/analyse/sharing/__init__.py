"""Effects of sharing: slowdown, throughput, fairness, objectives."""
