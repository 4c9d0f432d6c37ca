"""Differences between the manifests of two runs: those that rule out a comparison, and those that may explain it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

Manifest = Mapping[str, Any]

MACHINE = ("model", "cores", "quota_cores", "memory_bytes", "virtual")
SETTINGS = ("kernel", "microcode", "governors", "boost", "huge_pages", "libc", "python")


def forbids(before: Manifest, now: Manifest) -> str | None:
    """Why two runs can't be compared, or None if they can."""
    if bool(before.get("simulated")) != bool(now.get("simulated")):
        return "one was measured and the other simulated"
    if before.get("device") != now.get("device"):
        return f"one ran on {before.get('device')} and the other on {now.get('device')}"
    return None


def differences(before: Manifest, now: Manifest) -> list[str]:
    """One sentence per kind of difference: machine, system, packages, code, study."""
    found = []
    a, b = (_mapping(run, "device_description") for run in (before, now))
    if machine := list(_changed(a, b, MACHINE)):
        found.append(f"Different machines: {'; '.join(machine)}.")
    if system := list(_changed(a, b, SETTINGS)):
        found.append(f"The system changed: {'; '.join(system)}.")
    first, second = _session(before), _session(now)
    packages = _mapping(first, "packages"), _mapping(second, "packages")
    if versions := list(_changed(*packages, tuple(sorted({*packages[0], *packages[1]})))):
        found.append(f"Packages changed: {'; '.join(versions)}.")
    environment = _mapping(first, "environment"), _mapping(second, "environment")
    if variables := list(_changed(*environment, tuple(sorted({*environment[0], *environment[1]})))):
        found.append(f"Environment variables changed: {'; '.join(variables)}.")
    found += _code(_mapping(first, "git"), _mapping(second, "git"))
    if before.get("study_name") != now.get("study_name"):
        found.append(f"The studies have different names: {before.get('study_name')} and {now.get('study_name')}.")
    elif before.get("study") != now.get("study"):
        found.append("The study's text changed: only cells with the same mix, sharing, load and work are compared.")
    return found


def _changed(before: Manifest, now: Manifest, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        if before.get(name) != now.get(name):
            yield f"{name} {_text(before.get(name))} -> {_text(now.get(name))}"


def _code(before: Manifest, now: Manifest) -> Iterator[str]:
    if before.get("commit") != now.get("commit"):
        commits = (_text(run.get("commit"))[:12] for run in (before, now))
        yield f"The working directory's commit changed: {' -> '.join(commits)}."
    if before.get("dirty") or now.get("dirty"):
        yield "There were uncommitted changes in the working directory."


def _mapping(run: Manifest, name: str) -> Manifest:
    """Return an entry that should be a mapping; a foreign manifest may contain anything."""
    value = run.get(name)
    return value if isinstance(value, Mapping) else {}


def _session(run: Manifest) -> Manifest:
    sessions = run.get("sessions")
    first = sessions[0] if isinstance(sessions, list) and sessions else {}
    return first if isinstance(first, Mapping) else {}


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def changes_over_time(runs: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """What changed from each run to the next, in order of time, given their names and manifests."""
    ordered = sorted(runs, key=lambda run: run[0])
    return [
        f"Before run {later}: {sentence}"
        for (_, before), (later, now) in pairwise(ordered)
        for sentence in differences(before, now)
    ]
