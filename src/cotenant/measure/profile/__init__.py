"""A separate pass that sees kernels. Profiling slows tenants down, so nothing of it ever counts as a measurement."""
