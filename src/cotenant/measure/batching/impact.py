"""Speed by batch size, from an ordinary study of the same workload at several sizes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

from cotenant import workloads
from cotenant.analyse.batching import Advice, Impact
from cotenant.analyse.estimates import positive_interval
from cotenant.analyse.sharing import inverse, widened_estimate
from cotenant.devices.protocol import Device
from cotenant.measure.batching.verification import VerifiedBatch, attempt_on
from cotenant.measure.batching.verification import verify as search_largest
from cotenant.measure.events import Listener
from cotenant.measure.run_plan import plan_for
from cotenant.measure.session import carry_out
from cotenant.prediction.batch_limit import BatchLimit, growth_of, predict
from cotenant.store.observe import observations
from cotenant.store.query import sql
from cotenant.store.reading import open_runs
from cotenant.study.files import study_from
from cotenant.study.model import Study
from cotenant.tenancy.records import TenantObservation
from cotenant.workloads.protocol import WorkloadSpec

BLOCKS = 4
MOST_SIZES = 14
"""Every power of two up to 8,192: the best size may be anywhere up to the largest."""
_STAGES = """
    select t.batch, s.stage, sum(s.duration_ns) / count(distinct (s.trial, s.seq)) / 1e6
    from stages s
    join requests r on (r.run, r.trial, r.tenant, r.seq) = (s.run, s.trial, s.tenant, s.seq)
    join tenants t on (t.run, t.trial, t.tenant) = (s.run, s.trial, s.tenant)
    join trials on (trials.run, trials.trial) = (s.run, s.trial)
    where r.in_window and r.ok and trials.block >= 0 group by all
"""


def sizes_up_to(largest: int) -> tuple[int, ...]:
    """Powers of two up to the largest batch, at most `MOST_SIZES` of them, the larger ones."""
    powers = [1 << exponent for exponent in range(largest.bit_length()) if 1 << exponent <= largest]
    return tuple(powers[:1] + powers[1:][-(MOST_SIZES - 1) :])


def impact_study(spec: WorkloadSpec, sizes: Sequence[int], device: str, *, window_s: float) -> Study:
    """Each size alone, in random order within each block."""
    given = spec.model_dump(mode="json", exclude_defaults=True, exclude={"name", "batch"})
    tenants: dict[str, Any] = {
        f"batch-{size}": {"workload": spec.name, "batch": size, "timing": "synchronised", **given} for size in sizes
    }
    return study_from(
        {
            "name": "batch-impact",
            "device": device,
            "tenants": tenants,
            "mixes": ["solo"],
            "window": f"{window_s:g}s",
            "blocks": BLOCKS,
            "budget": None,
        }
    )


def measure_impact(
    spec: WorkloadSpec, sizes: Sequence[int], device: Device, *, window_s: float, out: Path, listener: Listener
) -> tuple[tuple[Impact, ...], Path]:
    """Measure (or simulate) each size; return the results and the run folder with their records."""
    study = impact_study(spec, sizes, device.name, window_s=window_s)
    _, folder = carry_out(plan_for(study, device), device, folder=None, out=out, listener=listener)
    return read_impact(folder, sizes), folder


def read_impact(folder: Path, sizes: Sequence[int]) -> tuple[Impact, ...]:
    """Read the impacts from such a run; sizes that served nothing are omitted.

    Intervals of a simulated run contain the simulation's error.
    """
    stages: dict[int, dict[str, float]] = {}
    for batch, stage, mean_ms in sql(_STAGES, [folder]).rows:
        stages.setdefault(int(batch), {})[str(stage)] = float(mean_ms)
    by_size: dict[int, list[TenantObservation]] = {}
    with open_runs([folder]) as runs:
        for seen in observations(runs, raw=False):
            if seen.block >= 0 and seen.n and seen.verdict != "invalid":
                by_size.setdefault(int(seen.of.removeprefix("batch-")), []).append(seen)
    return tuple(_impact(size, by_size[size], stages.get(size, {})) for size in sizes if size in by_size)


def _impact(size: int, trials: Sequence[TenantObservation], stages_ms: Mapping[str, float]) -> Impact:
    items, error = positive_interval([seen.throughput_rps * size for seen in trials]), trials[0].model_error
    if error is not None:
        items = widened_estimate(items, inverse(error.time))
    return Impact(size, items, mean(seen.mean_latency_ns for seen in trials) / 1e6, stages_ms)


# --- results on a workload's batch size on a device

MARGIN = 0.05
"""Share of the largest batch that ran that is kept free, for fragmentation and longer inputs."""


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """Results on a workload's batch size on a device."""

    workload: str
    dtype: str
    device: str
    simulated: bool
    predicted: BatchLimit
    verified: VerifiedBatch | None = None
    impacts: tuple[Impact, ...] = ()
    advice: Advice | None = None
    run: Path | None = None
    """The run folder behind the impacts."""

    @property
    def largest(self) -> int:
        """The largest batch: verified if it was tried, otherwise predicted."""
        return self.predicted.batch if self.verified is None else self.verified.largest

    @property
    def safe(self) -> int:
        """The largest batch, less a margin."""
        return int(self.largest * (1 - MARGIN))

    def to_json(self) -> dict[str, Any]:
        """As JSON, with derived figures and what is estimated."""
        predicted, verified = self.predicted, self.verified
        return {
            "workload": self.workload,
            "dtype": self.dtype,
            "device": self.device,
            "simulated": self.simulated,
            "max_batch": self.largest,
            "safe_batch": self.safe,
            "power_of_two": 1 << (self.largest.bit_length() - 1) if self.largest else 0,
            "estimated": verified is None,
            "predicted": {
                "batch": predicted.batch,
                "needed_bytes": predicted.bytes_at(predicted.batch),
                "limit": predicted.limit,
                "weight_bytes": predicted.growth.weight_bytes,
                "fixed_bytes": predicted.growth.fixed_bytes,
                "per_item_bytes": predicted.growth.per_item_in(predicted.room),
                "available_bytes": predicted.room.available_bytes,
            },
            "verified": verified,
            "impacts": self.impacts,
            "advice": self.advice,
            "run": self.run,
        }


def largest_batch(
    spec: WorkloadSpec, device: Device, memory_bytes: int | None, *, verify: bool, progress: Callable[[str], None]
) -> BatchAnswer:
    """The largest batch that fits: predicted from a dry run, then tried in fresh processes. Raises CotenantError."""
    workload = workloads.find(spec.name)
    workload.check(spec)
    spec = device.spec(spec)
    progress(f"{spec.name}: a dry run at two sizes")
    predicted = predict(growth_of(spec, workload.properties), device.room(memory_bytes))
    answer = BatchAnswer(spec.name, spec.dtype or "", device.name, device.simulated, predicted)
    if not verify or device.simulated:
        return answer
    attempt = attempt_on(device, spec, memory_bytes or device.free_memory_bytes())

    def announced(size: int) -> Any:
        progress(f"{spec.name}: trying a batch of {size:,} in a fresh process (predicted: {predicted.batch:,})")
        return attempt(size)

    return replace(answer, verified=search_largest(max(predicted.batch, 1), announced))
