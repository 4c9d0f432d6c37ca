"""A request as kernels, and what each costs alone on a GPU."""
