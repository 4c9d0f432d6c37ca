"""What runs: models, kernels, pipelines, and yours."""

from cotenant.workloads.catalogue import Entry, catalogue, find

__all__ = ["Entry", "catalogue", "find"]
