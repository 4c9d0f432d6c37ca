"""What runs: models, kernels, pipelines, and yours."""

from cotenant.workloads.catalogue import Entry, WorkloadInfo, catalogue, described, find

__all__ = ["Entry", "WorkloadInfo", "catalogue", "described", "find"]
