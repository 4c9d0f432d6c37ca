"""Serving by contract: front ends, workers and backends around the scheduler."""
