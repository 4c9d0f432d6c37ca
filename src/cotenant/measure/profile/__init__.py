"""A separate pass that records kernels. Profiling slows tenants down, so none of it counts as a measurement."""
