"""Workloads: models, kernels, pipelines, and your own."""

from cotenant.workloads.catalogue import WorkloadEntry, WorkloadInfo, catalogue, described, figures, find

__all__ = ["WorkloadEntry", "WorkloadInfo", "catalogue", "described", "figures", "find"]
