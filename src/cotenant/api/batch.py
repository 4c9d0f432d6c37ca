"""`batch`: the largest batch that fits, and the size that pays."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.api.progress_output import Say, saying, with_progress
from cotenant.measure.events import Listener, silent
from cotenant.paths import AnyPath

if TYPE_CHECKING:
    from cotenant.measure.batching import BatchAnswer


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
    from cotenant.measure.batching import largest_batch, measure_impact, sizes_up_to
    from cotenant.workloads.spec_options import read_spec

    out, progress = Path(out), saying(say, quiet=quiet)
    place = find_device(device)
    params = {} if image is None else {"image": image}
    specs = [
        read_spec({"name": name, "dtype": dtype, "seq": seq, "train": train, "params": params}) for name in workloads
    ]
    answers = []
    for spec in specs:
        answer = largest_batch(spec, place, memory_bytes, verify=verify, progress=progress)
        if impact and answer.largest:
            sizes = sizes_up_to(max(answer.safe, 1))
            found, folder = measure_impact(spec, sizes, place, window_s=window_s, out=out, listener=listener or silent)
            advice = advise(found, latency_goal_ms=latency_goal_ms, largest=answer.largest) if found else None
            answer = replace(answer, impacts=found, advice=advice, run=folder)
        answers.append(answer)
    return tuple(answers)
