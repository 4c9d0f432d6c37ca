"""Workloads: models, kernels, pipelines, and your own."""

from cotenant.workloads.catalogue import Entry, WorkloadInfo, catalogue, described, figures, find

__all__ = ["Entry", "WorkloadInfo", "catalogue", "described", "figures", "find"]
