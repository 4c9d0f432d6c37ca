"""The result of runs: everything that `show` prints, as values."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cotenant.analyse.decision import Answer, MixChoice, decide
from cotenant.analyse.decision.option import mix_name
from cotenant.analyse.decision.wording import headline, in_words
from cotenant.analyse.device_use import DeviceUse, TrialReadings, device_use
from cotenant.analyse.dvfs import JobReading, Sweep, sweeps
from cotenant.analyse.findings import Apart, MemberTimes, StageShare, opening
from cotenant.analyse.sharing.capacity import capacity_curves, capacity_sentences
from cotenant.analyse.sharing.closing import alone_sentences, closing_sentences, three_ways
from cotenant.analyse.sharing.summarise import summarise
from cotenant.analyse.sharing.summary import MixSummary, Summary, TenantSummary
from cotenant.analyse.tabular import Row, Tabular, plain
from cotenant.plain_yaml import NotYaml, load
from cotenant.tenancy.records import TenantObservation
from cotenant.text import amount

# --- a study on several devices side by side: the recommendation for each mix on each device


@dataclass(frozen=True, slots=True)
class OnDevices:
    """A mix under a load and setting."""

    mix: str
    under: str
    """Load and settings, where they differ."""
    choices: tuple[MixChoice | None, ...]
    """Choices in the order of the devices; None where the mix was not measured."""


@dataclass(frozen=True, slots=True)
class SideBySide:
    """All mixes on all devices."""

    devices: tuple[str, ...]
    rows: tuple[OnDevices, ...]
    said: tuple[str, ...]
    """The recommendation on each device."""
    left_out: tuple[str, ...]
    """Mixes that did not fit on a device."""

    @property
    def regression(self) -> bool:
        """Always false: devices side by side are not a before and after, so nothing became slower."""
        return False

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        rows = [
            {
                "mix": row.mix,
                "under": row.under,
                "devices": {
                    device: None
                    if choice is None
                    else {"verdict": choice.verdict, "sharing": choice.best.cell.sharing, "work": choice.best.work}
                    for device, choice in zip(self.devices, row.choices, strict=True)
                },
            }
            for row in self.rows
        ]
        found: dict[str, Any] = plain({"said": self.said, "left_out": self.left_out, "mixes": rows})
        return found


def side_by_side(answer: Answer, manifests: Sequence[Mapping[str, Any]]) -> SideBySide | None:
    """Compare devices; None for a single device."""
    there = {choice.best.cell.device for choice in answer.choices}
    given = [str(manifest.get("device")) for manifest in manifests]
    devices = tuple(device for device in dict.fromkeys([*given, *sorted(there)]) if device in there)
    if len(devices) < 2:
        return None
    several = [
        name for name in ("load", "settings") if len({getattr(choice.best.cell, name) for choice in answer.choices}) > 1
    ]
    rows: dict[tuple[str, str], dict[str, MixChoice]] = {}
    for choice in answer.choices:
        under = ", ".join(str(getattr(choice.best.cell, name)) for name in several)
        called = min((mix_name(choice.best.standings), choice.best.cell.mix), key=len)
        rows.setdefault((called, under), {})[choice.best.cell.device] = choice
    return SideBySide(
        devices,
        tuple(
            OnDevices(mix, under, tuple(found.get(device) for device in devices))
            for (mix, under), found in rows.items()
        ),
        tuple(f"On {device}: {said}" for device in devices for said in _on(answer, device)[:1]),
        tuple(
            f"{manifest.get('device', '?')}: {sentence}"
            for manifest in manifests
            for sentence in manifest.get("too_small_for") or ()
        ),
    )


def _on(answer: Answer, device: str) -> list[str]:
    alone = tuple(tenant for tenant in answer.missed_alone if device in tenant.under)
    return headline(Answer(alone, tuple(choice for choice in answer.choices if choice.best.cell.device == device)))


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
        return decide(self.summary, str(self.manifests[0].get("study_file") or "FILE") if self.manifests else "FILE")

    @cached_property
    def side_by_side(self) -> SideBySide | None:
        """Recommendations by device; None for a single device."""
        return side_by_side(self.answer, self.manifests)

    @cached_property
    def before_any_mix(self) -> str:
        """What to say of a study of mixes that ended, or has come, no further than tenants alone; else empty."""
        manifest = self.manifests[0]
        ended = manifest.get("state")
        if len(self.manifests) > 1 or ended == "complete" or any(not mix.cell.solo for mix in self.mixes):
            return ""
        try:
            study = load(str(manifest.get("study") or ""))
        except NotYaml:
            return ""
        mixes = study.get("mixes") if isinstance(study, dict) else None
        if not isinstance(mixes, list) or all(mix == "solo" for mix in mixes):
            return ""
        so_far = "has measured" if ended == "running" else f"was {ended} after"
        trials = amount(sum(sum(mix.trials_by_verdict.values()) for mix in self.mixes), "trial")
        return (
            f"Can't tell yet whether these tenants may share: the run {so_far} {trials} of tenants alone, before any "
            f"mix. Continue it: cotenant run --resume {self.folder}"
        )

    @property
    def valid_stages(self) -> tuple[StageShare, ...]:
        """Stages of tenants with a valid trial."""
        valid = {tenant.of for tenant in self.tenants if tenant.trials_by_verdict.get("valid")}
        return tuple(share for share in self.stages if share.of in valid)

    @property
    def opening(self) -> list[str]:
        """The first sentences: the study's main finding, or else the recommendation."""
        beside = self.side_by_side
        if beside is not None:
            return list(beside.said)
        if not self.mixes:
            return [_without_trials(self.manifests[0])]
        if self.before_any_mix:
            return [self.before_any_mix]
        return opening(self.answer, self.summary, sweeps=self.sweeps, members=self.members, stages=self.valid_stages)

    @property
    def usable(self) -> bool:
        """At least half of the trials are valid."""
        return mostly_valid(sum((Counter(mix.trials_by_verdict) for mix in self.mixes), Counter()))

    def rows(self) -> list[Row]:
        """One row for each tenant of each mix: estimates and interval ends in plain columns."""
        found = []
        decided = {option.cell: (choice, option) for choice in self.answer.choices for option in choice.options}
        for tenant in self.tenants:
            row: dict[str, Any] = {**tenant.cell.to_json(), "tenant": tenant.tenant, "requests": tenant.requests}
            numbers = {
                "throughput_rps": tenant.throughput_rps,
                **{f"{name}_ms": number for name, number in tenant.latency_ms.items()},
                "mean_ms": tenant.mean_latency_ms,
                "slowdown": tenant.slowdown,
            }
            for name, number in numbers.items():
                row |= {name: number.est, f"{name}_lo": number.lo, f"{name}_hi": number.hi}
            choice, option = decided.get(tenant.cell, (None, None))
            standings = () if option is None else option.standings
            kept = {each.tenant: each.shared.answer for each in standings if each.shared is not None}
            row |= {
                "objective": kept.get(tenant.tenant),
                "decision": None if choice is None else choice.verdict,
                "recommended": None if choice is None or option is None else choice.best.cell == option.cell,
            }
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


# --- from records to their result


@dataclass(frozen=True, slots=True)
class RunRecords:
    """The records of any number of runs that a result is computed from; iterables are read once, when needed."""

    folders: tuple[Path, ...]
    manifests: tuple[Mapping[str, Any], ...]
    damage: tuple[str, ...]
    """One sentence for each part that can't be read."""
    notes: tuple[str, ...]
    target: float | None
    """The relative half-width of slowdowns that the study aims for."""
    observations: Iterable[TenantObservation]
    """Of the blocks, with raw latencies; those of a tenant of a cell are consecutive."""
    around: Iterable[TenantObservation]
    """All trials of runs with solo trials outside the blocks, without raw latencies; else empty."""
    reasons: Mapping[str, str]
    readings: Iterable[TrialReadings]
    clock_readings: Iterable[JobReading]
    stages: Callable[[], Iterable[StageShare]]


Observations = Iterator[TenantObservation]


def result_of(records: RunRecords, *, watch: Callable[[Observations], Observations] = lambda seen: seen) -> Result:
    """Reduce the records of runs, for `run`, `show` and `report`.

    Args:
        records: What is on disk.
        watch: Called with every observation, including raw latencies.
    """
    members = MemberTimes()
    summary = summarise(watch(members.watch(iter(records.observations))))
    return Result(
        folders=records.folders,
        manifests=records.manifests,
        summary=summary,
        reasons=records.reasons,
        device_use=device_use(records.readings, records.manifests),
        sweeps=tuple(sweeps(records.clock_readings)),
        members=members.apart(),
        stages=() if any(not mix.cell.solo for mix in summary.mixes) else tuple(records.stages()),
        notes=records.notes,
        sentences=(
            *records.damage,
            *closing_sentences(summary, records.target),
            *capacity_sentences(capacity_curves(summary)),
            *alone_sentences(three_ways(records.around)),
        ),
    )
