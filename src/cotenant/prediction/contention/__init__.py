"""Requests of several tenants on one GPU: contention and the event engine."""
