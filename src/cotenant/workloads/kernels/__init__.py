"""Kernels that stress one thing each: arithmetic (GEMM), memory (triad), a cache, the launching of work."""

from cotenant.workloads.kernels.cache import CACHES
from cotenant.workloads.kernels.gemm import GEMMS
from cotenant.workloads.kernels.launch import LAUNCHES
from cotenant.workloads.kernels.triad import TRIADS

WORKLOADS = (*GEMMS, *TRIADS, *CACHES, *LAUNCHES)
