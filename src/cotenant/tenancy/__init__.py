"""The basic terms of a measurement: tenants, loads, mixes, trials, and the columns of their records."""
