"""What requests ask of the host and the device, in a few figures per tenant: the input of the closed form.

Kernels are sorted by length into classes, so that the contention law still sees which kernels fill the device and which
slip in between. How a request's time depends on slower kernels is tabulated from its trace, launch by launch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.prediction.contention.simulation import claims
from cotenant.prediction.contention.trace import Pace, Trace
from cotenant.prediction.kernels.columns import Floats

CLASSES = 6
COUNT, DURATION, OCCUPANCY, DRAM, CLAIM, BLOCK, HOLDS = range(7)
"""Columns of a class of kernels."""
BEFORE, AFTER, LAUNCH, DEVICE, WAITED = range(5)
"""Columns of a request: host time before and after its kernels, time of launches, of kernels, and the number of kernels
that the host waits for."""
RATIOS = np.geomspace(1 / 8, 64, 28)
"""Slowness of the device relative to the host for which a request's time is tabulated."""


@dataclass(frozen=True, slots=True)
class Demands:
    """A row per tenant, or per tenant and part of the device."""

    kernels: Floats
    """Rows x classes x columns."""
    request: Floats
    """Rows x columns."""
    paced: Floats
    """Rows x ratios: time from the first launch to the end of the last kernel."""

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.request)

    @property
    def alone_ns(self) -> Floats:
        """Time of a request alone."""
        paced = np.array([np.interp(0.0, np.log(RATIOS), row) for row in self.paced])
        return np.asarray(self.request[:, BEFORE] + paced + self.request[:, AFTER])


def joined(demands: Sequence[Demands]) -> Demands:
    """Rows of several tables."""
    return Demands(*(np.concatenate([getattr(demand, name) for demand in demands]) for name in Demands.__slots__))


def demands_of(traces: Sequence[Trace]) -> Demands:
    """Summaries of traces."""
    return Demands(
        np.array([_classes(trace) for trace in traces]).reshape(-1, CLASSES, HOLDS + 1),
        np.array(
            [
                [
                    trace.before_ns,
                    trace.after_ns,
                    float(trace.launch_ns.sum()),
                    trace.device_ns,
                    float(trace.waited.sum()),
                ]
                for trace in traces
            ]
        ).reshape(-1, WAITED + 1),
        np.array([_paced(trace) for trace in traces]).reshape(-1, RATIOS.size),
    )


def _classes(trace: Trace) -> Floats:
    """Classes with about equal parts of the kernels' number and time, the shortest first."""
    order = np.argsort(trace.duration_ns, kind="stable")
    duration = trace.duration_ns[order]
    part = (1 / duration.size + duration / duration.sum()) / 2
    of = np.minimum(((np.cumsum(part) - part / 2) * CLASSES).astype(np.int64), CLASSES - 1)
    table = np.zeros((CLASSES, HOLDS + 1))
    table[:, COUNT] = np.bincount(of, minlength=CLASSES)
    time = np.bincount(of, weights=duration, minlength=CLASSES)
    table[:, DURATION] = time / np.maximum(table[:, COUNT], 1.0)
    shares = (trace.occupancy, trace.dram, claims(trace), trace.block_ns, trace.holds)
    for column, share in enumerate(shares, OCCUPANCY):
        weighted = np.bincount(of, weights=share[order] * duration, minlength=CLASSES)
        table[:, column] = weighted / np.maximum(time, 1e-300)
    return table


def _paced(trace: Trace) -> Floats:
    return np.asarray(Pace.of(trace.launch_ns, trace.duration_ns, trace.waited).time_ns(1.0, RATIOS))
