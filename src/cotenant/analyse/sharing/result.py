"""The result of runs: everything that `show` prints, as values."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cotenant.analyse.decision import Answer, decide
from cotenant.analyse.decision.in_words import in_words
from cotenant.analyse.device_use import DeviceUse
from cotenant.analyse.dvfs import Sweep
from cotenant.analyse.findings.devices import SideBySide, side_by_side
from cotenant.analyse.findings.members import Apart
from cotenant.analyse.findings.opening import opening
from cotenant.analyse.findings.stages import StageShare
from cotenant.analyse.sharing.capacity import capacity_curves
from cotenant.analyse.sharing.summary import MixSummary, Summary, TenantSummary
from cotenant.analyse.tabular import Row, Tabular, plain


@dataclass(frozen=True)
class Result(Tabular):
    """One run, or several together. As a table it has a row for each tenant of each mix."""

    folders: tuple[Path, ...]
    manifests: tuple[Mapping[str, Any], ...]
    """Of each run: study, device, sensors, environment."""
    summary: Summary
    reasons: Mapping[str, str]
    """For each failed check the reason, as given by the latest trial."""
    device_use: tuple[DeviceUse, ...]
    """Device use by mix; empty without accelerator sensors."""
    sweeps: tuple[Sweep, ...]
    """Time, power and energy by clock or power limit, where the study swept them."""
    notes: tuple[str, ...]
    """What to know before reading any number."""
    sentences: tuple[str, ...]
    """Findings; for recommendations see `answer`."""
    members: tuple[Apart, ...] = ()
    """Differences between the members of a group under each kind of work, alone."""
    stages: tuple[StageShare, ...] = ()
    """Time by stage of each tenant, in runs without sharing."""

    @property
    def tenants(self) -> tuple[TenantSummary, ...]:
        """Every tenant of every mix."""
        return self.summary.tenants

    @property
    def mixes(self) -> tuple[MixSummary, ...]:
        """Every mix, as it was shared."""
        return self.summary.mixes

    @property
    def folder(self) -> Path:
        """The run's folder; the first if there are several runs."""
        return self.folders[0]

    @property
    def why(self) -> str:
        """Why the run ended: precise enough, time budget used, all blocks done."""
        return str(self.manifests[0].get("why") or self.manifests[0].get("state") or "")

    @cached_property
    def answer(self) -> Answer:
        """Recommendations: who may share, how, and what would decide the rest."""
        return decide(self.summary)

    @cached_property
    def side_by_side(self) -> SideBySide | None:
        """Recommendations by device; None if there is only one."""
        return side_by_side(self.answer, self.manifests)

    @property
    def opening(self) -> list[str]:
        """The first sentences: the study's main finding, or else the recommendation."""
        beside = self.side_by_side
        if beside is not None:
            return list(beside.said)
        if not self.mixes:
            return [_without_trials(self.manifests[0])]
        return opening(self.answer, self.summary, sweeps=self.sweeps, members=self.members, stages=self.stages)

    @property
    def usable(self) -> bool:
        """At least half of the trials are valid."""
        return mostly_valid(sum((Counter(mix.trials_by_verdict) for mix in self.mixes), Counter()))

    def rows(self) -> list[Row]:
        """One row for each tenant of each mix: estimates and interval ends in plain columns."""
        found = []
        for one in self.tenants:
            row: dict[str, Any] = {**one.cell.to_json(), "tenant": one.tenant, "requests": one.requests}
            numbers = {
                "throughput_rps": one.throughput_rps,
                **{f"{name}_ms": number for name, number in one.latency_ms.items()},
                "mean_ms": one.mean_latency_ms,
                "slowdown": one.slowdown,
            }
            for name, number in numbers.items():
                row |= {name: number.est, f"{name}_lo": number.lo, f"{name}_hi": number.hi}
            found.append(plain(row))
        return found

    def to_json(self) -> dict[str, Any]:
        """As `show --json` prints it; see `Summary.to_json`."""
        beside = self.side_by_side
        more = {
            "devices": None if beside is None else beside.to_json(),
            "answer": in_words(self.answer) | {"headline": self.opening},
            "capacity": [curve.to_json() for curve in capacity_curves(self.summary)],
            "device_use": self.device_use,
            "sweeps": self.sweeps,
            "members": self.members,
            "stages": self.stages,
            "notes": self.notes,
            "sentences": self.sentences,
        }
        whole: dict[str, Any] = {**self.summary.to_json(), **plain(more)}
        return whole


def mostly_valid(trials_by_verdict: Mapping[str, int]) -> bool:
    """At least half of the trials are valid, and some are: a run that can be used."""
    valid = trials_by_verdict.get("valid", 0)
    return valid > 0 and 2 * valid >= sum(trials_by_verdict.values())


def _without_trials(manifest: Mapping[str, Any]) -> str:
    """Why there is nothing to say about a run."""
    state, why = manifest.get("state"), manifest.get("why")
    if state == "failed":
        return f"This run failed before its first trial was complete{f': {why}' if why else ''}."
    return f"This run has no trials{' yet' if state == 'running' else f' ({why})' if why else ''}."
