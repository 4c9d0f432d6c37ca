"""What runs: models, kernels, pipelines, and yours."""

from cotenant.workloads.catalogue import Described, Entry, catalogue, described, find

__all__ = ["Described", "Entry", "catalogue", "described", "find"]
