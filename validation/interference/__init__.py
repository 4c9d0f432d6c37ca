"""Accuracy of interference predictions for tenants, families and groups outside the evidence."""
