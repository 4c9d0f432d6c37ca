"""Training under decreasing power limits: predicted time and power, given the highest limit."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cotenant.devices.simulated.catalogue import find_gpu, gpu_names
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.power.draw import Activity
from cotenant.prediction.power.settling import Limits, settle
from validation.measures import absolute_error
from validation.reading import LeftOutRows, files, positive, read_table
from validation.result import Measure, Result, Row

FILES = {
    "v100-pcie-32gb": "power/zeus/summary_power_v100.csv",
    "a40": "power/zeus/summary_power_a40.csv",
}
EVERY_FILE = "power/zeus/summary_power_*.csv"
JOB = ("dataset", "network", "batch_size", "optimizer")
FITTED = {"v100-pcie-32gb": "resnet50", "a40": "ncf"}
"""By GPU, the network that represents what was fitted: the two constants below, and the A40's idle power."""
MEMORY_PER_COMPUTE = 0.6
CLOCK_BOUND = 0.8
"""Fraction of a busy GPU's training time that scales with the clock; less if it is busy less than half of the time."""
SOURCE = "time per epoch and mean power of five training jobs per power limit, ml-energy/zeus (Apache-2.0)"
SPLIT = (
    "Given each job's time and power at the highest limit; ResNet-50 on the V100 and NCF on the A40 count as used for "
    "fitting, all other networks as held out (see the notes: not blindly)."
)
CHOICE_NOTE = (
    "The held-out networks were not unseen: the two constants were picked from six pairs with every network's error in "
    "view (4.0 to 4.3 % on the V100, whichever pair), and the A40's draw without work was added after its errors had "
    "been looked at; without it they were 10.7 % over all its networks, worse than the baseline's 9.5 %."
)
NOTES = (
    CHOICE_NOTE,
    "A job's activity is taken from its power at the highest limit; that it comes and goes is left out.",
    "Near the lowest limits, which leave the A40 12 W to work with, the simulation is too kind.",
)


@dataclass(frozen=True, slots=True)
class Point:
    """A power limit of a job."""

    limit_w: float
    seconds: float
    power_w: float


def validate(data: Path) -> tuple[Result, ...]:
    """Time, then power, over the limits."""
    times: list[Row] = []
    powers: list[Row] = []
    left_out = LeftOutRows()
    for name, file in _present(data, left_out).items():
        gpu = find_gpu(name)
        for job, points in _jobs(data, file):
            if len(points) == 1:
                left_out.add("there is only one power limit", f"{name}, {job}")
            given = points[-1]
            activity = _activity(gpu, given)
            before = settle(gpu, activity, limits=_limits(gpu, given))
            for point in points[:-1]:
                after = settle(gpu, activity, limits=_limits(gpu, point))
                case = f"{name}, {job}, {point.limit_w:g} W"
                held_out = FITTED.get(name) not in job.split()
                slower = max(1.0, given.power_w / point.limit_w)
                times.append(
                    Row(
                        case,
                        measured=point.seconds / given.seconds,
                        simulated=after.slowdown / before.slowdown,
                        baselines={"no slowdown": 1.0, "as power falls": slower},
                        held_out=held_out,
                    )
                )
                powers.append(
                    Row(
                        case,
                        measured=point.power_w,
                        simulated=given.power_w * after.power_w / before.power_w,
                        baselines={"limit or power before": min(point.limit_w, given.power_w)},
                        held_out=held_out,
                    )
                )
    return (
        _result("time under a power limit, relative to the highest limit", "slowdown", "", times, left_out),
        _result("mean power under a power limit", "power", "W", powers, left_out),
    )


def _present(data: Path, left_out: LeftOutRows) -> dict[str, str]:
    """Files by GPU."""
    named = {file: gpu for gpu, file in FILES.items()}
    found: dict[str, str] = {}
    for file in files(data, EVERY_FILE):
        called = Path(file).stem.removeprefix("summary_power_")
        gpu = named.get(file, called)
        if gpu in gpu_names():
            found[gpu] = file
        else:
            left_out.add("the GPU isn't in the catalogue", called, len(read_table(data, file, JOB)))
    return found


def _result(what: str, quantity: str, unit: str, rows: list[Row], left_out: LeftOutRows) -> Result:
    gpus = sorted({row.case.partition(",")[0] for row in rows}, reverse=True)
    measures: list[Measure] = [
        absolute_error(rows, of=quantity),
        absolute_error(rows, of=quantity, average="median"),
        *(
            absolute_error([row for row in rows if row.case.startswith(f"{name},")], of=f"{quantity}, {name}")
            for name in gpus
        ),
    ]
    return Result(
        "zeus",
        what,
        SOURCE,
        SPLIT,
        quantity,
        unit,
        tuple(rows),
        tuple(measures),
        NOTES,
        left_out=left_out.sentences(),
    )


def _activity(gpu: GpuSpec, given: Point) -> Activity:
    """The activity that draws the job's power at the highest limit; by bisection, since power rises with activity."""
    low, high = 0.0, 1.0
    for _ in range(24):
        middle = (low + high) / 2
        if settle(gpu, _at(middle), limits=_limits(gpu, given)).power_w < given.power_w:
            low = middle
        else:
            high = middle
    return _at(high)


def _at(compute: float) -> Activity:
    busy = min(1.0, compute / 0.5)
    return Activity(compute, MEMORY_PER_COMPUTE * compute, core_time=CLOCK_BOUND * busy)


def _limits(gpu: GpuSpec, point: Point) -> Limits:
    return Limits(power_w=min(max(point.limit_w, gpu.power.min_limit_w), gpu.power.limit_w))


def _jobs(data: Path, file: str) -> Iterator[tuple[str, list[Point]]]:
    """Every job with its points, from the lowest limit to the highest."""
    jobs: dict[str, list[Point]] = defaultdict(list)
    for row in read_table(data, file, (*JOB, "power_limit", "time_per_epoch", "average_power")):
        limit, seconds, power = (
            positive(row[name], file, name) for name in ("power_limit", "time_per_epoch", "average_power")
        )
        jobs[" ".join(row[name] for name in JOB)].append(Point(limit, seconds, power))
    for job, points in sorted(jobs.items()):
        yield job, sorted(points, key=lambda point: point.limit_w)
