"""The kernels of an engine's step, ready for the law of contention."""

from dataclasses import dataclass

import numpy as np

from cotenant.prediction.contention.trace import FIXED_HOLDS, Trace, trace_of
from cotenant.prediction.engines.alone import host_ns
from cotenant.prediction.engines.engine_profile import EngineProfile
from cotenant.prediction.engines.layer_tables import KernelTable
from cotenant.prediction.engines.step import StepShape, StepTimes
from cotenant.prediction.kernels.attention import Attended
from cotenant.prediction.kernels.columns import KINDS, Floats, Ints

_GEMM = KINDS.index("gemm")
_MERGED = ("occupancy", "dram", "tensor", "block_ns", "holds")
_LEAST = 1e-6
_MOST_BASES = 1024
_Rows = tuple[int, int, float]
"""Rows of a table around a number of tokens, and the weight of the upper one."""


@dataclass(frozen=True, slots=True)
class _Groups:
    """Kernels by number of tokens, with short passes merged into the product before them."""

    duration_ns: Floats
    """Numbers of tokens x groups, as the others."""
    merged: dict[str, Floats]
    before: int
    """Groups before attention."""


@dataclass(frozen=True, slots=True)
class _Base:
    """Kernels of a step but for attention, which depends on its contexts."""

    columns: dict[str, Floats]
    attention: Ints
    """Places of attention."""


class StepTraces:
    """A model's steps on a part of a GPU as traces."""

    def __init__(self, times: StepTimes, *, domain_sms: int, slower: float = 1.0) -> None:
        self.times, self._domain_sms, self._slower = times, domain_sms, slower
        part = times.part
        self._bandwidth = part.gpu.bandwidth_gb_s * part.bandwidth_share
        model = times.model
        tables = [(times.layer, model.layers - model.dense_layers)]
        if times.dense is not None:
            tables.insert(0, (times.dense, model.dense_layers))
        self._layers = [(self._groups(table), count) for table, count in tables]
        self._ends = self._groups(times.ends)
        self._bases: dict[tuple[_Rows, _Rows], _Base] = {}

    @property
    def most_kernels(self) -> int:
        """Kernels of a step."""
        layers = sum((groups.duration_ns.shape[1] + 1) * count for groups, count in self._layers)
        return int(layers + self._ends.duration_ns.shape[1])

    def trace(self, step: StepShape, *, host_ns: float, launch_ns: float) -> Trace:
        """A step's kernels.

        Args:
            step: The step.
            host_ns: Host time before its first kernel.
            launch_ns: Host time per kernel.
        """
        rows = self.times.row(step.tokens, graphs=True), self.times.row(step.sequences, graphs=False)
        if rows not in self._bases:
            if len(self._bases) >= _MOST_BASES:
                self._bases.clear()
            self._bases[rows] = self._base(*rows)
        base = self._bases[rows]
        kernels = {name: values.copy() for name, values in base.columns.items()}
        for name, value in self._attention(step).items():
            kernels[name][base.attention] = value
        size = kernels["duration_ns"].size
        # Merged kernels were launched separately.
        launches = launch_ns * self.times.kernels / size
        return Trace(
            duration_ns=kernels["duration_ns"] * self._slower,
            occupancy=kernels["occupancy"],
            dram=kernels["dram"],
            tensor=kernels["tensor"],
            block_ns=kernels["block_ns"] * self._slower,
            holds=kernels["holds"],
            launch_ns=np.full(size, launches),
            slot=np.zeros(size, np.int64),
            waited=np.zeros(size),
            before_ns=host_ns,
        )

    def _base(self, layers_at: _Rows, ends_at: _Rows) -> "_Base":
        columns: dict[str, list[Floats]] = {name: [] for name in ("duration_ns", *_MERGED)}
        attention: list[Ints] = []
        size = 0
        for groups, count in self._layers:
            layer, width = _at(groups, layers_at), groups.duration_ns.shape[1] + 1
            for name, values in columns.items():
                values.append(np.tile(np.insert(layer[name], groups.before, 0.0), count))
            attention.append(size + groups.before + width * np.arange(count))
            size += width * count
        ends = _at(self._ends, ends_at)
        return _Base(
            {name: np.concatenate([*values, ends[name]]) for name, values in columns.items()}, np.concatenate(attention)
        )

    def of(self, profile: EngineProfile, step: StepShape) -> Trace:
        """A step with its host time and launches."""
        launch_ns = 0.0 if self.times.part.graphs else profile.eager_us * 1e3
        return self.trace(step, host_ns=host_ns(profile, step), launch_ns=launch_ns)

    def _groups(self, table: KernelTable) -> _Groups:
        kinds = table.kernels.kind[: table.width]
        starts = np.flatnonzero(kinds == _GEMM)
        starts[0] = 0  # what comes before the first product joins it
        trace = trace_of(
            table.kernels,
            table.costs,
            domain_sms=self._domain_sms,
            bytes_per_ns=self._bandwidth,
            launch_ns=np.zeros(len(table.kernels)),
        )
        duration = trace.duration_ns.reshape(-1, table.width)
        total = np.add.reduceat(duration, starts, axis=1)
        merged = {
            name: np.add.reduceat(getattr(trace, name).reshape(-1, table.width) * duration, starts, axis=1) / total
            for name in _MERGED
        }
        return _Groups(total, merged, int((starts < table.attention_at).sum()))

    def _attention(self, step: StepShape) -> dict[str, float]:
        launched = [self._attended(kernel, prompts=bool(step.queries) and number == 0) for number, kernel in
                    enumerate(self.times.attended(step))]  # fmt: skip
        total = sum(kernel["duration_ns"] for kernel in launched)
        merged = {name: sum(kernel[name] * kernel["duration_ns"] for kernel in launched) / total for name in _MERGED}
        return {"duration_ns": total, **merged}

    def _attended(self, kernel: Attended, *, prompts: bool) -> dict[str, float]:
        duration, fixed, blocks = float(kernel.duration_ns[0]), float(kernel.fixed_ns[0]), float(kernel.blocks[0])
        sms = float(self.times.part.sms or self.times.part.gpu.sms)
        busy, working = min(blocks, sms) / self._domain_sms, max(duration - fixed, 0.0)
        return {
            "duration_ns": duration,
            "occupancy": min(max(busy * (working + FIXED_HOLDS * fixed) / duration, _LEAST), 1.0),
            "dram": min(float(kernel.dram_bytes[0]) / (duration * self._bandwidth), 1.0),
            "tensor": min(busy * float(kernel.compute_ns[0]) / duration, 1.0) if prompts else 0.0,
            "block_ns": working / max(1.0, blocks / sms),
            "holds": min(busy, 1.0),
        }


def _at(groups: _Groups, between: _Rows) -> dict[str, Floats]:
    lower, upper, weight = between
    duration = groups.duration_ns[lower] * (1 - weight) + groups.duration_ns[upper] * weight
    return {"duration_ns": duration, **{name: values[upper] for name, values in groups.merged.items()}}
