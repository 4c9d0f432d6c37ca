"""What sharing does: slowdown, throughput, fairness, objectives."""
