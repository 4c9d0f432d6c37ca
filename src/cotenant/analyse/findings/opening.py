"""The first sentences about a run: its study's main finding, or else the recommendation."""

from collections.abc import Sequence

from cotenant.analyse.decision import Answer
from cotenant.analyse.decision.wording import headline, missed_alone
from cotenant.analyse.dvfs import Sweep
from cotenant.analyse.findings.knee import load_findings
from cotenant.analyse.findings.members import Apart, member_findings
from cotenant.analyse.findings.stages import StageShare, stage_findings
from cotenant.analyse.sharing.summary import Summary
from cotenant.text import percent


def opening(
    answer: Answer,
    summary: Summary,
    *,
    sweeps: Sequence[Sweep] = (),
    members: Sequence[Apart] = (),
    stages: Sequence[StageShare] = (),
) -> list[str]:
    """The finding for this kind of study; a study of who may share opens with the decision."""
    found = (
        member_findings(members) or clock_findings(sweeps) or load_findings(answer, summary) or stage_findings(stages)
    )
    return [*found, *missed_alone(answer)] if found else headline(answer)


WORTH_SETTING = 0.05
"""Share of the energy of a request: a smaller saving is not worth changing a setting."""


def clock_findings(sweeps: Sequence[Sweep]) -> list[str]:
    """Energy saved by lower clocks or limits over all jobs, and its cost in time."""
    if not sweeps:
        return []
    said = []
    for control, verb, noun in (("clock_mhz", "Lower the clock", "clock"), ("power_w", "Limit the power", "limit")):
        mine = [one for one in sweeps if one.control == control]
        if not mine:
            continue
        saved = [one.energy_saved for one in mine]
        lost = [max(0.0, one.time_lost) for one in mine]
        if max(saved) < WORTH_SETTING:
            said.append(f"Leave the {noun} as it is: no other saves more than {percent(max(saved))} of the energy.")
            continue
        each = "" if len(mine) == 1 else f" at the best {noun} of each of {len(mine)} jobs"
        said.append(
            f"{verb}: a request needs {_span(saved)} less energy for {_span(lost)} more time{each}"
            f"{_cheapest(mine) if len(mine) > 1 else ''}."
        )
    return said


def _span(shares: Sequence[float]) -> str:
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def _cheapest(sweeps: Sequence[Sweep]) -> str:
    """The job that saves most for its cost in time."""
    best = max(sweeps, key=lambda one: one.energy_saved - max(0.0, one.time_lost))
    value = best.best.value
    unit = "MHz" if best.control == "clock_mhz" else "W"
    at = "" if value is None else f" at {value:,.0f} {unit}"
    return f"; {best.job} gains most: {percent(best.energy_saved)} for {percent(max(0.0, best.time_lost))}{at}"
