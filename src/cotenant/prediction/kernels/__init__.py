"""A request as kernels, and the cost of each alone on a GPU."""
