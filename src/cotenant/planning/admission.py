"""A useful "no": the single change of a tenants file or of the devices that admits a tenant, found by trying it."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.errors import CotenantError
from cotenant.planning.mixes.kinds import PRICES
from cotenant.planning.mixes.make import Ask, Impossible, make_plan
from cotenant.planning.mixes.serving_plan import Refusal
from cotenant.planning.solver.generation import Clock
from cotenant.tenancy.device_names import DeviceName
from cotenant.text import figure, milliseconds

if TYPE_CHECKING:
    from cotenant.tenancy.objective import Objective
    from cotenant.tenancy.tenant_entry import TenantEntry

MOST_NAMED = 5
"""Tenants that no device serves of which a change is looked for."""
LOOKING, TRYING = 0.2, 0.1
"""Parts of the time for all changes, at least, and for each try."""
FREE = 0.5
"""Part of it for changes that cost nothing."""
MOST_AT_ONCE = 32
SOFTWARE = ("compile", "graphs", "onnxruntime", "tensorrt")
GENERATING = ("vllm", "compile", "graphs")
PARTS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
"""Parts of a rate that are tried, the largest first."""
RELAXED = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Multiples of a limit that are tried, the smallest first. Whoever asks for 30 ms has no use for more."""
NO_CHANGE = "no single change of software, rate, limits (to 10x) or devices was found that serves it"

Attempt = Callable[[Sequence[str], str], bool]
"""Plan again with these `--set` texts on these devices: whether the tenant gets all it asks for."""


@dataclass(frozen=True, slots=True)
class AdmissionChange:
    """A change that admits a tenant."""

    tenant: str
    sentence: str
    """`with software: compile`."""
    overrides: tuple[str, ...] = ()
    """For `--set`."""
    devices: str | None = None
    """For `--devices`, if they change."""

    def command(self, source: str, devices: str, options: str = "") -> str:
        """The command that plans with it."""
        settings = "".join(f" --set '{text}'" for text in self.overrides)
        return f"cotenant plan {source} --devices '{self.devices or devices}'{settings}{options}"


def admitting_change(
    name: str,
    entry: "TenantEntry",
    devices: str,
    attempt: Attempt,
    *,
    other_kinds: Sequence[str] = (),
    room: bool = False,
    more: Callable[[float], bool] = lambda _: True,
) -> AdmissionChange | None:
    """A single change under which a plan has room for a tenant; None if none of those tried does.

    Changes that cost nothing come first: of how it is executed, then of its requirements, then of the devices. A change
    that nearly always works is tried before all others, so that there is an answer when time is up.

    Args:
        name: The tenant.
        entry: Its entry of the tenants file.
        devices: The devices as `--devices` names them.
        attempt: Plans again.
        other_kinds: Kinds of devices that could be added, the cheapest first.
        room: The tenant fits alone, so that another device of a known kind may suffice.
        more: Whether there is time for another attempt, given the part of the time that it may end in.
    """

    def admits(change: AdmissionChange) -> bool:
        return attempt(change.overrides, change.devices or devices)

    more_devices = [
        AdmissionChange(name, f"with one more {kind}", devices=added) for added, kind in _one_more(devices) if room
    ]
    known = next((change for change in more_devices if admits(change)), None)
    for tried, change in enumerate(_candidates(name, entry)):
        if tried and not more(FREE):
            break
        if admits(change):
            return change
    if known is not None:
        return known
    steps = (*_rates(name, entry), _limits(name, entry))
    for number, changes in enumerate(steps, start=1):
        first = _first(changes, admits, lambda number=number: more(FREE + (1 - FREE) * number / (len(steps) + 1)))  # type: ignore[misc]
        if first is not None:
            return first
    others = (AdmissionChange(name, f"on {kind}", devices=f"{devices},{kind}") for kind in other_kinds)
    return next((change for change in others if more(1.0) and admits(change)), None)


def _candidates(name: str, entry: "TenantEntry") -> Iterator[AdmissionChange]:
    """Changes of how it is executed, the likeliest first: on a slow machine there may be time for just one."""
    key = f"tenants.{name}"
    if entry.isolation != "any":
        yield AdmissionChange(name, "without its isolation", (f"{key}.isolation=any",))
    if entry.share is not None:
        yield AdmissionChange(name, "without a share of its own", (f"{key}.share=null",))
    generates = entry.mode == "generate"
    changes = [
        AdmissionChange(name, f"with software: {software}", (f"{key}.software={software}",))
        for software in (GENERATING if generates else SOFTWARE)
        if software not in (entry.software or ())
    ]
    given = entry.at_once[-1] if entry.at_once else 1
    if given < MOST_AT_ONCE and not (generates and entry.at_once is None):
        more = AdmissionChange(name, f"with at_once: 1..{MOST_AT_ONCE}", (f"{key}.at_once=1..{MOST_AT_ONCE}",))
        changes.insert(1, more)
    yield from changes


def _one_more(devices: str) -> Iterator[tuple[str, str]]:
    """The devices with another of each simulated kind."""
    parts = [part.strip() for part in devices.split(",")]
    for position, part in enumerate(parts):
        kind, _, count = part.partition("*")
        if DeviceName(kind).simulated:
            number = int(count or 1) + 1 if (count or "1").isdecimal() else 2
            yield ",".join([*parts[:position], f"{kind}*{number}", *parts[position + 1 :]]), kind


def _rates(name: str, entry: "TenantEntry") -> tuple[list[AdmissionChange], ...]:
    """Lower rates, for a file with `rate` and for a file with `load`."""
    load = entry.load
    if load is None or not load.rate_rps or load.kind not in {"poisson", "gamma"}:
        return ()
    by_key: tuple[list[AdmissionChange], list[AdmissionChange]] = ([], [])
    for part in PARTS:
        less = figure(load.rate_rps * part).replace(",", "")
        sentence = f"at {less}/s instead of {load.rate_rps:g}/s"
        written = f"poisson({less})" if load.kind == "poisson" else f"gamma({less}, {load.cv:g})"
        by_key[0].append(AdmissionChange(name, sentence, (f"tenants.{name}.rate={less}/s",)))
        by_key[1].append(AdmissionChange(name, sentence, (f"tenants.{name}.load={written}",)))
    return by_key


def _limits(name: str, entry: "TenantEntry") -> list[AdmissionChange]:
    """All objectives relaxed by the same factor."""
    return [
        AdmissionChange(
            name,
            "with " + ", ".join(f"{limit.label}: {milliseconds(limit.limit_ms * factor)}" for limit in entry.slo),
            (f"tenants.{name}.slo={{{', '.join(_relaxed(limit, factor) for limit in entry.slo)}}}",),
        )
        for factor in (RELAXED if entry.slo else ())
    ]


def _relaxed(objective: "Objective", factor: float) -> str:
    return f"{objective.label}: {objective.limit_ms * factor:.6g}ms"


def _first(
    steps: Sequence[AdmissionChange], works: Callable[[AdmissionChange], bool], more: Callable[[], bool]
) -> AdmissionChange | None:
    """The first step that works, by bisection: if a step works, all later steps do. The last is always tried."""
    if not steps or not works(steps[-1]):
        return None
    low, high = -1, len(steps) - 1
    while high - low > 1 and more():
        middle = (low + high) // 2
        low, high = (low, middle) if works(steps[middle]) else (middle, high)
    return steps[high]


# --- plan again with each change


@dataclass(frozen=True, slots=True)
class Advisor:
    """Plans again with single changes, to find those that admit tenants that were refused."""

    tenants: Path
    devices: str
    entries: "Mapping[str, TenantEntry]"
    """By name."""
    overrides: tuple[str, ...]
    ask: Ask
    """As the plan was asked for."""
    clock: Clock

    def hint(self, names: Sequence[str], tried: set[str], end: float) -> str:
        """A change for each tenant that no device serves, however it is shared: in a plan for all if possible."""
        kinds = [f"sim:{kind}" for kind in sorted(PRICES, key=lambda name: PRICES[name].usd_per_h)]
        others = [kind for kind in kinds if kind not in tried]
        end, lines = self._until(end), []
        for name in names[:MOST_NAMED]:
            change, alone = None, len(self.entries) > 1
            if alone and len(names) == 1:  # beside others that can't be served either, nothing can be tried
                half = (self.clock() + end) / 2
                change = self._change(name, half, other_kinds=others, room=True, left_out={*self.entries} - {name})
                alone = change is None
            change = change or self._change(name, end, other_kinds=others)
            if change is not None:
                how = f"by itself {change.sentence}" if alone else change.sentence
                lines.append(f"{name} can be served {how}: {self._command(change)}")
            else:
                lines.append(f"{name}: {NO_CHANGE}")
        return "; ".join(lines)

    def explained(self, refusals: Sequence[Refusal], end: float) -> tuple[Refusal, ...]:
        """The refusals with the change that admits each, as far as time allows."""
        end, changes = self._until(end), []
        for number, refusal in enumerate(refusals):
            others = {other.tenant for other in refusals} - {refusal.tenant}
            own = self.clock() + (end - self.clock()) / (len(refusals) - number)
            changes.append(self._change(refusal.tenant, own, room=True, left_out=others))
        return tuple(
            replace(refusal, reason=f"{refusal.reason}; {NO_CHANGE}")
            if change is None
            else replace(refusal, change=change.sentence, command=self._command(change))
            for refusal, change in zip(refusals, changes, strict=True)
        )

    def _until(self, end: float) -> float:
        return max(end, self.clock() + LOOKING * self.ask.seconds)

    def _change(
        self,
        name: str,
        end: float,
        *,
        other_kinds: Sequence[str] = (),
        room: bool = False,
        left_out: Collection[str] = (),
    ) -> AdmissionChange | None:
        begun = self.clock()
        return admitting_change(
            name,
            self.entries[name],
            self.devices,
            lambda overrides, devices: self._admits(name, overrides, devices, alone=not room, left_out=left_out),
            other_kinds=other_kinds,
            room=room,
            more=lambda part: self.clock() < begun + part * (end - begun),
        )

    def _command(self, change: AdmissionChange) -> str:
        usual = Ask()
        options = f" --minimise {self.ask.minimise}" if self.ask.minimise in {"energy", "latency"} else ""
        options += f" --risk {self.ask.risk:g}" if self.ask.risk != usual.risk else ""
        given = replace(change, overrides=(*self.overrides, *change.overrides))
        return given.command(str(self.tenants), self.devices, options)

    def _admits(
        self, name: str, overrides: Sequence[str], devices: str, *, alone: bool, left_out: Collection[str]
    ) -> bool:
        """Whether a plan with these changes serves a tenant: by itself, or beside all others."""
        from cotenant.planning.inputs.devices import devices_of
        from cotenant.planning.inputs.predictors import PlanEvidence, predictors_for
        from cotenant.planning.inputs.tenants import tenants_to_plan

        try:
            file = tenants_to_plan(self.tenants, (*self.overrides, *overrides), devices=self.devices)
            entries = {name: file.tenants[name].model_copy(update={"near": (), "apart": ()})} if alone else file.tenants
            there = devices_of(devices, file.prices, priced=False)
            wanted, rough, closer = predictors_for(
                entries, there, PlanEvidence(), risk=self.ask.risk, source=str(self.tenants), progress=lambda _: None
            )
            ask = replace(self.ask, minimise="devices", seconds=TRYING * self.ask.seconds, explained=False)
            ask = replace(ask, complete=not left_out)
            made = make_plan(wanted, there.kinds, rough, clock=self.clock, ask=ask, closer=closer)
        except (Impossible, CotenantError):
            return False
        return {*made.left_out} <= {*left_out}
