"""From open runs to their result, for `run`, `show` and `report`."""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from cotenant.analyse.device_use import SENSORS, device_use
from cotenant.analyse.dvfs import sweeps
from cotenant.analyse.findings.members import MemberTimes
from cotenant.analyse.findings.stages import StageShare
from cotenant.analyse.sharing.alone import alone_sentences, three_ways
from cotenant.analyse.sharing.capacity import capacity_curves, capacity_sentences
from cotenant.analyse.sharing.result import Result
from cotenant.analyse.sharing.sentences import closing_sentences
from cotenant.analyse.sharing.summarise import summarise
from cotenant.store.manifest import PROFILE_PASS
from cotenant.store.observe import observations
from cotenant.store.reading import OpenRuns
from cotenant.store.readings import clock_readings, readings
from cotenant.store.reduced import Reduced
from cotenant.store.watched import require_requests
from cotenant.study.asked import asked_interval
from cotenant.tenancy.records import STOPPED_BLOCK, TenantObservation

Observations = Iterator[TenantObservation]


def result_of(runs: OpenRuns, *, watch: Callable[[Observations], Observations] = lambda seen: seen) -> Result:
    """Reduce the records of runs.

    Args:
        runs: Open runs.
        watch: Called with every observation, including raw latencies.
    """
    require_requests(runs, "a result")
    manifests = runs.manifests
    members = MemberTimes()
    counted = (seen for seen in observations(runs, raw=True) if seen.block >= 0)
    summary = summarise(watch(members.watch(counted)))
    alone = three_ways(observations(runs, raw=False)) if _bracketed(runs) else ()
    return Result(
        folders=tuple(runs.paths),
        manifests=tuple(manifests),
        summary=summary,
        reasons=runs.latest_reasons(),
        device_use=device_use(readings(runs, SENSORS), manifests),
        sweeps=tuple(sweeps(clock_readings(runs))),
        members=members.apart(),
        stages=() if any(not mix.cell.solo for mix in summary.mixes) else _stages(runs),
        notes=tuple(_profiled(path) for path, one in zip(runs.paths, manifests, strict=True) if PROFILE_PASS in one),
        sentences=(
            *runs.damage,
            *closing_sentences(summary, asked_interval(manifests)),
            *capacity_sentences(capacity_curves(summary)),
            *alone_sentences(alone),
        ),
    )


def _stages(runs: OpenRuns) -> tuple[StageShare, ...]:
    return tuple(StageShare(one.of, one.stage, one.mean_ms) for one in Reduced(runs).stages())


def _bracketed(runs: OpenRuns) -> bool:
    """Whether some run has solo trials with the other servers stopped."""
    return bool(runs.con.execute("SELECT 1 FROM trials WHERE block <= ? LIMIT 1", [STOPPED_BLOCK]).fetchall())


def _profiled(run: Path) -> str:
    where = shlex.quote(str(run))
    return f"{run} is a profile pass, whose times are not used. Its kernels: cotenant profile {where}"
