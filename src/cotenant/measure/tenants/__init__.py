"""Tenant processes: starting them, pooling them, serving requests inside them."""
