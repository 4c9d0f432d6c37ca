"""A useful "no": the single change of a tenants file or of the devices that admits a tenant, found by trying it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cotenant.tenancy.device_names import DeviceName
from cotenant.text import figure, milliseconds

if TYPE_CHECKING:
    from cotenant.tenancy.objective import Objective
    from cotenant.tenancy.tenant_entry import TenantEntry

MOST_AT_ONCE = 32
SOFTWARE = ("compile", "graphs", "onnxruntime", "tensorrt")
GENERATING = ("vllm", "compile", "graphs")
PARTS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
"""Parts of a rate that are tried, the largest first."""
RELAXED = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1e3, 1e4)
"""Multiples of a limit that are tried, the smallest first."""

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

    def command(self, source: str, devices: str) -> str:
        """The command that plans with it."""
        settings = "".join(f" --set '{text}'" for text in self.overrides)
        return f"cotenant plan {source} --devices '{self.devices or devices}'{settings}"


def admitting_change(
    name: str,
    entry: "TenantEntry",
    devices: str,
    attempt: Attempt,
    *,
    other_kinds: Sequence[str] = (),
    room: bool = False,
    more: Callable[[], bool] = lambda: True,
) -> AdmissionChange | None:
    """The first single change under which a plan has room for a tenant; None if none of those tried does.

    Args:
        name: The tenant.
        entry: Its entry of the tenants file.
        devices: The devices as `--devices` names them.
        attempt: Plans again.
        other_kinds: Kinds of devices that could be added, the cheapest first.
        room: The tenant fits alone, so that another device of a known kind may suffice.
        more: Whether there is time for another attempt.
    """
    for change in _candidates(name, entry, devices, room=room):
        if not more():
            return None
        if attempt(change.overrides, change.devices or devices):
            return change
    for steps in (*_rates(name, entry), _limits(name, entry)):
        first = _first(steps, lambda step: attempt(step.overrides, devices), more)
        if first is not None:
            return first
    for kind in other_kinds:
        if not more():
            return None
        change = AdmissionChange(name, f"on {kind}", devices=f"{devices},{kind}")
        if attempt((), change.devices or devices):
            return change
    return None


def _candidates(name: str, entry: "TenantEntry", devices: str, *, room: bool) -> Iterator[AdmissionChange]:
    """Changes of how it is executed, and of the devices; those that cost nothing first."""
    key = f"tenants.{name}"
    if entry.isolation != "any":
        yield AdmissionChange(name, "without its isolation", (f"{key}.isolation=any",))
    if entry.share is not None:
        yield AdmissionChange(name, "without a share of its own", (f"{key}.share=null",))
    generates = entry.mode == "generate"
    given = entry.at_once[-1] if entry.at_once else 1
    if given < MOST_AT_ONCE and not (generates and entry.at_once is None):
        yield AdmissionChange(name, f"with at_once: 1..{MOST_AT_ONCE}", (f"{key}.at_once=1..{MOST_AT_ONCE}",))
    for software in GENERATING if generates else SOFTWARE:
        if software not in (entry.software or ()):
            yield AdmissionChange(name, f"with software: {software}", (f"{key}.software={software}",))
    if room:
        for more_devices, kind in _one_more(devices):
            yield AdmissionChange(name, f"with one more {kind}", devices=more_devices)


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
    """The first step that works, by bisection: if a step works, all later steps do."""
    if not steps or not more() or not works(steps[-1]):
        return None
    low, high = -1, len(steps) - 1
    while high - low > 1 and more():
        middle = (low + high) // 2
        low, high = (low, middle) if works(steps[middle]) else (middle, high)
    return steps[high]
