"""Infer the parts of a request from measured times: the host's, and the device's by limiting resource.

Times over batch sizes, parts of the device and concurrent copies separate the parts: the host's doesn't shrink with the
batch, the fixed part doesn't grow on a smaller part of the device, the SMs' and the DRAM's grow as their shares shrink.
What the given times can't determine is taken from the average of separated requests.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.prediction.contention.trace import FIXED_HOLDS, Trace
from cotenant.prediction.kernels.columns import Floats

TYPICAL = (0.51, 0.23, 0.59, 0.57)
"""Fixed share of the device's time, then SM-bound share of the rest: each first for what doesn't grow with the batch,
then for what does. Averages of the same four models, separated by their times on slices."""

KERNELS = 100
"""Kernels of a request with an unknown number."""
VARIATION = 1.0
"""Coefficient of variation of its kernels' lengths."""

_SHORTEST_NS = 1.0
"""Shortest time the engine can distinguish from zero."""
_SHARPNESS = 8
"""Host and device overlap almost perfectly: the longer counts. The engine agrees, see its tests."""
_CROWD_SHARPNESS = 5
"""Copies collide by chance before they fill the device. The engine agrees within 8 %, without bias."""
_ROBUST = 0.05
"""Larger relative errors are down-weighted: measured tables contain slips."""
_SIZE_TRUST, _SHARE_TRUST = 0.02, 0.07
"""Weight of a guess against a measured time, per unit of its logarithm or logit."""
_SIZE_GUESS = (0.9, 0.3, 0.3, 0.5)
"""Initial sizes relative to the shortest time: chosen on the same four models and on every other model of MISO
(A100-40GB: BERT, DeepSpeech2, GNN, ResNet), with the full GPU given and slices predicted."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured time per request."""

    batch: float
    time: float
    """Any unit, the same for all."""
    sm_share: float = 1.0
    """Fraction of the device's SMs."""
    dram_share: float = 1.0
    copies: int = 1
    """Processes running the same concurrently (MPS)."""


@dataclass(frozen=True, slots=True)
class Anatomy:
    """Time of a request's parts on the entire device: a constant and an increment per item of the batch."""

    host: tuple[float, float]
    device: tuple[float, float]
    fixed: tuple[float, float]
    """Share of the device's time that no resource shortens."""
    sm_bound: tuple[float, float]
    """Share of the rest bound by SMs; the remainder is bound by DRAM bandwidth."""

    def host_time(self, batch: float) -> float:
        """Host time, overlapping with the device."""
        return self.host[0] + self.host[1] * batch

    def parts(self, batch: float, sm_share: float = 1.0, dram_share: float = 1.0) -> tuple[float, float, float]:
        """Fixed, SM-bound and DRAM-bound time on a part of the device."""
        sizes = (self.device[0], self.device[1] * batch)
        fixed = sum(size * share for size, share in zip(sizes, self.fixed, strict=True))
        rest = [size * (1 - share) for size, share in zip(sizes, self.fixed, strict=True)]
        sm = sum(size * share for size, share in zip(rest, self.sm_bound, strict=True))
        return fixed, sm / sm_share, (sum(rest) - sm) / dram_share

    def trace(
        self,
        batch: float,
        *,
        unit_ns: float,
        sm_share: float = 1.0,
        dram_share: float = 1.0,
        kernels: int = KERNELS,
        serial: float = 0.0,
    ) -> Trace:
        """A request for the engine, with kernels of the same kind and varying lengths.

        Each first works on all its SMs, then starts and drains: concurrent tenants collide where both work, and pass
        where one doesn't.

        Args:
            batch: Items per request.
            unit_ns: The unit of the measured times, in nanoseconds.
            sm_share: Its fraction of the device's SMs.
            dram_share: Its fraction of the bandwidth.
            kernels: Number of kernels the device's time is split into.
            serial: Additional host time (in the same unit) during which the device idles.
        """
        fixed, sm, dram = self.parts(batch, sm_share, dram_share)
        lengths = _lengths(kernels) * unit_ns
        ones = np.ones(kernels)
        durations = np.maximum(_in_turn(lengths * (sm + dram), lengths * fixed), _SHORTEST_NS)
        holds = _in_turn(ones, ones * FIXED_HOLDS)
        return Trace(
            duration_ns=durations,
            occupancy=holds,
            dram=_in_turn(ones * (dram / (sm + dram)), 0.0 * ones),
            tensor=np.zeros(2 * kernels),
            launch_ns=_in_turn(ones * (self.host_time(batch) / kernels * unit_ns), 0.0 * ones),
            slot=np.zeros(2 * kernels, np.int64),
            block_ns=durations,
            holds=holds,
            waited=np.zeros(2 * kernels),
            before_ns=serial * unit_ns,
        )


def fit_anatomy(times: Sequence[Measured]) -> Anatomy:
    """The anatomy that best explains the measured times; typical shares where they can't determine it."""
    from scipy.optimize import least_squares

    rows = np.array([[time.batch, time.time, time.sm_share, time.dram_share, time.copies] for time in times])
    batch, time, sm_share = rows[:, 0], rows[:, 1], rows[:, 2]
    whole = time * sm_share
    shares = np.log(np.array(TYPICAL) / (1 - np.array(TYPICAL)))
    scales = np.array([time.min(), time.min() / batch.max(), whole.min(), (whole / batch).min()])
    guess = np.log(scales * _SIZE_GUESS)

    def residuals(values: Floats) -> Floats:
        explained = np.log(_explained(values, rows) / time)
        return np.concatenate([explained, _SHARE_TRUST * (values[4:] - shares), _SIZE_TRUST * (values[:4] - guess)])

    starts = [np.log(scales * (host, 0.1, 0.2, device)) for host in (0.3, 0.9) for device in (0.3, 1.0)]
    fits = [
        least_squares(residuals, np.concatenate([start, shares]), loss="soft_l1", f_scale=_ROBUST) for start in starts
    ]
    best = min(fits, key=lambda fit: float(fit.cost)).x
    sizes, part = np.exp(best[:4]), 1 / (1 + np.exp(-best[4:]))
    return Anatomy(
        host=(float(sizes[0]), float(sizes[1])),
        device=(float(sizes[2]), float(sizes[3])),
        fixed=(float(part[0]), float(part[1])),
        sm_bound=(float(part[2]), float(part[3])),
    )


def _explained(values: Floats, rows: Floats) -> Floats:
    """Closed form of the engine for equal tenants; fitting needs thousands of evaluations."""
    batch, _, sm_share, dram_share, copies = rows.T
    sizes, part = np.exp(values[:4]), 1 / (1 + np.exp(-values[4:]))
    host = sizes[0] + sizes[1] * batch
    device = (sizes[2], sizes[3] * batch)
    fixed = device[0] * part[0] + device[1] * part[1]
    busy = sum(
        size * (1 - share) * (bound / sm_share + (1 - bound) / dram_share)
        for size, share, bound in zip(device, part[:2], part[2:], strict=True)
    )
    crowded = np.where(copies > 1, copies * (busy + FIXED_HOLDS * fixed), 0.0)
    alone = _longer(host, fixed + busy, sharpness=_SHARPNESS)
    return _longer(alone, crowded, sharpness=_CROWD_SHARPNESS)


def _longer(first: Floats, second: Floats, *, sharpness: float) -> Floats:
    """The longer of two times, smoothed where they are close."""
    return np.asarray((first**sharpness + second**sharpness) ** (1 / sharpness))


def _in_turn(first: Floats, second: Floats) -> Floats:
    """Interleave: one of the first, one of the second, and so on."""
    return np.column_stack((first, second)).ravel()


def _lengths(kernels: int) -> Floats:
    """Deterministic shares of the time, of different lengths."""
    lengths = np.random.default_rng(kernels).gamma(1 / VARIATION**2, 1.0, kernels) + 1e-3
    return np.asarray(lengths / lengths.sum())
