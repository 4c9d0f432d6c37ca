"""Serving tenants on devices: what each needs, how a device can be shared, and the plan that keeps every objective."""
