"""`batch`: the largest batch that fits, and the size that pays."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.api.progress_output import Say, saying, with_progress
from cotenant.errors import WorkloadError
from cotenant.measure.events import Listener, silent
from cotenant.paths import AnyPath
from cotenant.workloads.protocol import WorkloadSpec

if TYPE_CHECKING:
    from cotenant.devices.protocol import Device
    from cotenant.measure.batching.impact import BatchAnswer


@with_progress
def batch(
    workloads: Sequence[str],
    *,
    device: str = "cpu",
    memory_bytes: int | None = None,
    dtype: str | None = None,
    image: int | None = None,
    seq: int | None = None,
    train: bool = False,
    verify: bool = True,
    impact: bool = False,
    latency_goal_ms: float | None = None,
    window_s: float = 1.0,
    out: AnyPath = Path("runs"),
    say: Say | None = None,
    listener: Listener | None = None,
    quiet: bool = False,
) -> "tuple[BatchAnswer, ...]":
    """Find the largest batch of each workload on a device, and how its size affects speed.

    Args:
        workloads: Names from the catalogue, or directories of weights.
        device: The device; a simulated GPU stands in for hardware that isn't installed.
        memory_bytes: Limit on the device memory to use.
        dtype: Number format; None: the device's preference.
        image: Side of a vision model's images.
        seq: Tokens per item.
        train: A training step instead of inference.
        verify: Try the size in fresh processes; not possible on a simulated GPU.
        impact: Also measure throughput, latency and stages by size.
        latency_goal_ms: Latency limit for the recommendation.
        window_s: Length of a trial's window when measuring the impact.
        out: Parent folder of the run folder for the impact.
        say: Called with progress messages; default: they go to stderr.
        listener: Receives progress events of the run for the impact; default: a display on stderr.
        quiet: No progress.

    Raises:
        CotenantError: A workload is unknown or can't be described, a device is absent, or an attempt failed.
    """
    from cotenant.analyse.batching import advise
    from cotenant.devices import find_device
    from cotenant.measure.batching.impact import measure_impact, sizes_up_to

    out, progress = Path(out), saying(say, quiet=quiet)
    place = find_device(device)
    params = {} if image is None else {"image": image}
    specs = [_spec({"name": name, "dtype": dtype, "seq": seq, "train": train, "params": params}) for name in workloads]
    answers = []
    for spec in specs:
        answer = _largest(spec, place, memory_bytes, verify=verify, progress=progress)
        if impact and answer.largest:
            sizes = sizes_up_to(max(answer.safe, 1))
            found, folder = measure_impact(spec, sizes, place, window_s=window_s, out=out, listener=listener or silent)
            advice = advise(found, latency_goal_ms=latency_goal_ms, largest=answer.largest) if found else None
            answer = replace(answer, impacts=found, advice=advice, run=folder)
        answers.append(answer)
    return tuple(answers)


def _spec(stated: dict[str, Any]) -> WorkloadSpec:
    """Validate the options; the first error is raised."""
    from pydantic import ValidationError

    try:
        return WorkloadSpec.model_validate(stated)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise WorkloadError(
            f"{key} can't be {stated.get(key)!r}: {first['msg'][:1].lower()}{first['msg'][1:]}",
            hint="`cotenant workloads` lists the names; `cotenant batch --help` the options",
        ) from None


def _largest(
    spec: WorkloadSpec, device: "Device", memory_bytes: int | None, *, verify: bool, progress: Callable[[str], None]
) -> "BatchAnswer":
    from cotenant import workloads
    from cotenant.measure.batching.impact import BatchAnswer
    from cotenant.measure.batching.verification import attempt_on
    from cotenant.measure.batching.verification import verify as search
    from cotenant.prediction.batch_limit import growth_of, predict

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

    return replace(answer, verified=search(max(predicted.batch, 1), announced))
