"""What every verb says about the standing tenants files, and where two verbs contradict each other.

`python -m tests.agreement.answers` prints the disagreements of all files, for known.txt.
"""

import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import cotenant
from cotenant.errors import CotenantError, StudyError
from cotenant.plain_yaml import load
from cotenant.planning.check import Attained
from cotenant.planning.mixes.serving_plan import PlannedDevice
from cotenant.serving.tenants_file import read_tenants, way_to_serve
from cotenant.study.files import load_study
from cotenant.tenancy.ways import ALONE, TURNS

HERE = Path(__file__).parent
FILES = {path.stem: path for path in sorted((HERE / "files").glob("*.yaml"))}
KNOWN = HERE / "known.txt"
CHEAPLY = ("blocks=2", "window=1s")


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a verb says about one tenant under one way to share."""

    sharing: str
    tenant: str
    quantity: str
    """`slowdown`, `attainment` or an objective such as `ttft p95`, in ms."""


@dataclass(frozen=True, slots=True)
class Range:
    """The range that the verb prints; an end it can't give is open, and a figure without a range is a point."""

    lo: float
    hi: float

    @classmethod
    def of(cls, est: float, lo: float | None, hi: float | None) -> "Range":
        """From an estimate and its interval."""
        return cls(-math.inf if lo is None else min(lo, est), math.inf if hi is None else max(hi, est))

    def overlaps(self, other: "Range") -> bool:
        """Whether both can be true, up to the digits that are printed."""
        return self.lo <= other.hi * 1.005 and other.lo <= self.hi * 1.005


Answers = dict[Quantity, Range]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the verbs say about a file."""

    answers: dict[str, Answers]
    refusals: dict[str, tuple[str, ...]]
    """By verb without an answer: the sentences that say why."""
    unread: frozenset[str]
    """Verbs that refuse the file itself, not only the question."""

    def contradictions(self) -> list[str]:
        """One line per quantity whose ranges at two verbs have nothing in common."""
        return [
            f"{key.sharing}: {key.tenant}: {key.quantity}: {verb} and {other}"
            for verb, other in combinations(self.answers, 2)
            for key in self.answers[verb].keys() & self.answers[other].keys()
            if not self.answers[verb][key].overlaps(self.answers[other][key])
        ]


@dataclass(frozen=True, slots=True)
class Effort:
    """How long verbs may simulate."""

    seed: int = 1
    """Of what is simulated trial by trial: runs, and the scheduler's order."""
    planning_s: float = 5.0
    simulated_s: float = 20.0


def asked(path: Path, verbs: Iterable[str], effort: Effort) -> Asked:
    """Ask some of `VERBS`, in their order, about a tenants file."""
    answers: dict[str, Answers] = {}
    refusals: dict[str, tuple[str, ...]] = {}
    unread = set()
    with tempfile.TemporaryDirectory() as folder:
        for verb in verbs:
            try:
                answers[verb] = VERBS[verb](path, Path(folder), effort)
            except StudyError as error:
                refusals[verb] = error.problems or (error.message,)
                unread.add(verb)
            except CotenantError as error:  # such as that no plan keeps every objective
                refusals[verb] = (error.message,)
    return Asked(answers, refusals, frozenset(unread))


def disagreements(path: Path, seed: int = 1) -> list[str]:
    """One line per contradiction between two verbs, and per verb that can't read the file."""
    whole = asked(path, VERBS, Effort(seed))
    lines = [*whole.contradictions(), *(f"{verb} refuses the file" for verb in whole.unread)]
    return sorted(f"{path.stem}: {line}" for line in lines)


def known() -> dict[str, list[str]]:
    """The contradictions that are known, by file."""
    lines = [line for line in KNOWN.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return {name: sorted(line for line in lines if line.startswith(f"{name}:")) for name in FILES}


def _dry_run(path: Path, _folder: Path, _effort: Effort) -> Answers:
    cotenant.dry_run(path)  # how long it takes, which no other verb says
    return {}


def _run(path: Path, folder: Path, effort: Effort) -> Answers:
    if _device(path) == "cpu":
        return {}  # measuring would depend on what else the machine does
    return _measured(path, folder, effort)


def _measured(path: Path, folder: Path, effort: Effort) -> Answers:
    found: Answers = {}
    for row in cotenant.run(path, out=folder, overrides=(*CHEAPLY, f"seed={effort.seed}")).tenants:
        if row.cell.solo or (row.cell.mix.count("+") + 1 < _tenants(path)):
            continue
        sharing = row.cell.sharing
        estimates = {"slowdown": row.slowdown}
        estimates |= row.latency_ms
        for metric in ("ttft", "tpot"):
            times = getattr(row.tokens, f"{metric}_ms", None) or {}
            estimates |= {f"{metric} {quantile}": value for quantile, value in times.items()}
        for quantity, value in estimates.items():
            if getattr(value, "est", None) is not None:
                found[Quantity(sharing, row.of, quantity)] = Range.of(value.est, value.lo, value.hi)
        if row.slo is not None and row.slo.share.est is not None:
            share = row.slo.share
            found[Quantity(sharing, row.of, "attainment")] = Range.of(share.est, share.lo, share.hi)
    return found


def _predict(path: Path, _folder: Path, _effort: Effort) -> Answers:
    study = load_study(path)
    found: Answers = {}
    for mix in cotenant.predict(study).mixes if study.mix_list() else ():
        if len(mix.mix) < _tenants(path):
            continue
        for one in mix.tenants:
            quantities = {"slowdown": one.slowdown}
            if one.tail is not None:
                quantities |= {"p99": one.tail.p99_ms, "p50": one.tail.p50_ms}
                quantities |= {} if one.tail.attainment is None else {"attainment": one.tail.attainment}
                quantities |= one.tail.times_ms
            for quantity, value in quantities.items():
                found[Quantity(mix.sharing, one.tenant, quantity)] = Range.of(value.est, value.lo, value.hi)
    return found


def _plan(path: Path, folder: Path, effort: Effort) -> Answers:
    planned = cotenant.plan(path, _device(path), seconds=effort.planning_s)
    planned.write(folder / "plan.yaml")
    found: Answers = {}
    for device in planned.devices:
        for seat in device.tenants:
            found[Quantity(_way(device), seat.name, "slowdown")] = Range.of(seat.slowdown.est, *seat.slowdown.ends)
            for kept in seat.kept:
                key = Quantity(_way(device), seat.name, kept.objective)
                found[key] = Range.of(kept.time_ms.est, *kept.time_ms.ends)
    return found


def _check(_path: Path, folder: Path, _effort: Effort) -> Answers:
    ways = _planned_ways(folder)
    return _judged(cotenant.check_plan(folder / "plan.yaml").tenants, ways.__getitem__) if ways else {}


def _judged(rows: Sequence[Attained], way: Callable[[str], str]) -> Answers:
    """By objective its time, and the share of requests in time; without a range of times, no time is compared."""
    found: Answers = {}
    for row in rows:
        if row.tail_ms.lo is not None:
            found[Quantity(way(row.device), row.tenant, row.objective)] = Range(*row.tail_ms.ends)
        if sum(other.tenant == row.tenant for other in rows) == 1:
            found[Quantity(way(row.device), row.tenant, "attainment")] = Range(*row.attained.ends)
    return found


def _run_of_plan(path: Path, folder: Path, effort: Effort) -> Answers:
    ways = _planned_ways(folder)
    if not ways or _device(path) == "cpu":
        return {}
    found = _measured(folder / "plan.yaml", folder, effort)
    return {Quantity(next(iter(ways.values())), key.tenant, key.quantity): value for key, value in found.items()}


def _serve(path: Path, _folder: Path, effort: Effort) -> Answers:
    if _device(path) == "cpu":
        read_tenants(path)
        return {}
    way = way_to_serve(load_study(path))
    return _promised(path, None, "scheduled" if way is None or way.mode in TURNS else str(way), effort)


def _serve_plan(_path: Path, folder: Path, effort: Effort) -> Answers:
    ways = _planned_ways(folder)
    found: Answers = {}
    for device, way in ways.items():
        turns = way in TURNS and way != ALONE  # the server orders the requests in place of the system
        found |= _promised(folder / "plan.yaml", device, "scheduled" if turns else way, effort)
    return found


def _promised(path: Path, device: str | None, way: str, effort: Effort) -> Answers:
    checked = cotenant.promise(path, device=device, seconds=effort.simulated_s, seed=effort.seed)
    return _judged(checked.tenants, lambda _: way)


VERBS: dict[str, Callable[[Path, Path, Effort], Answers]] = {
    "run --dry-run": _dry_run,
    "run": _run,
    "predict": _predict,
    "plan": _plan,
    "plan --check": _check,
    "run of the plan": _run_of_plan,
    "serve": _serve,
    "serve of the plan": _serve_plan,
}
"""In this order: the plan is written once and then used."""


def _planned_ways(folder: Path) -> dict[str, str]:
    """How each device of the plan is shared; empty if there is no plan."""
    with suppress(CotenantError):
        return {device.name: _way(device) for device in cotenant.Plan.read(folder / "plan.yaml").devices}
    return {}


def _way(device: PlannedDevice) -> str:
    shares = [seat.share for seat in device.tenants if seat.share is not None]
    written = ", ".join(f"{share:g}" if isinstance(share, float) else str(share) for share in shares)
    return f"{device.sharing}[{written}]" if shares else device.sharing


def _device(path: Path) -> str:
    return str(load(path.read_text(encoding="utf-8"))["device"])


def _tenants(path: Path) -> int:
    data = load(path.read_text(encoding="utf-8"))
    return len(data["tenants"] if "tenants" in data else data["devices"][0]["tenants"])


if __name__ == "__main__":
    for name in sys.argv[1:] or FILES:
        for line in disagreements(FILES[name]):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
