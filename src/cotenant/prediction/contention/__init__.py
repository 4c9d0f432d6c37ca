"""Requests of several tenants on a GPU: contention and the event engine."""
