"""Slowdowns of tenants beside each other: a closed-form prior, corrected by measurements, with intervals."""
