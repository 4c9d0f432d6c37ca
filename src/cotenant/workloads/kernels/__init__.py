"""Kernels that each stress one resource: arithmetic (GEMM), memory (triad), a cache, kernel launches."""

from cotenant.workloads.kernels.cache import CACHES
from cotenant.workloads.kernels.gemm import GEMMS
from cotenant.workloads.kernels.launch import LAUNCHES
from cotenant.workloads.kernels.triad import TRIADS

WORKLOADS = (*GEMMS, *TRIADS, *CACHES, *LAUNCHES)
