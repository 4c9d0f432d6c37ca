"""Kernels that each stress a resource: arithmetic (GEMM), memory (triad), a cache, kernel launches."""

from cotenant.workloads.kernels.gemm import GEMMS
from cotenant.workloads.kernels.stressors import CACHES, LAUNCHES, TRIADS

WORKLOADS = (*GEMMS, *TRIADS, *CACHES, *LAUNCHES)
