"""The checks behind every verdict: a closed set, each with its meaning and what to do when it fails."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cotenant.tenancy.records import JUDGED_ALONE_S, REQUESTS_MIN, Verdict

FOREIGN_SHARE, FOREIGN_SHARE_SHORT = 0.10, 1 / 3
STEAL_SHARE, STEAL_SHARE_SHORT = 0.05, 1 / 3
"""Short windows of a block are compared within about a second: what others take meanwhile, they take from all of them,
and any effect on the comparison shows as scatter of the blocks. Beyond this, it is another device than the study's."""
CLOCK_SPREAD = 0.05
FAILED_SHARE = 0.01
LAG_FLOOR_NS = 1_000_000
LAG_SHARE = 0.10


@dataclass(frozen=True, slots=True)
class Check:
    """A condition for a trial's numbers to be valid."""

    name: str
    when_failed: Literal["unstable", "invalid"]
    meaning: str
    hint: str


_ADVISED = re.compile(r"--set (window|lead)=(\d+)s")


def hint_for(check: Check, windows: Mapping[str, Any]) -> str:
    """What to do, beyond what the run already did; ``windows`` are the lengths in its manifest, in seconds."""

    def longer(advice: re.Match[str]) -> str:
        now = windows.get(f"{advice[1]}_s")
        seconds = int(advice[2])
        if not isinstance(now, int | float) or now < seconds:
            return advice[0]
        return f"--set {advice[1]}={4 * now:.3g}s"

    return _ADVISED.sub(longer, check.hint)


CHECKS: dict[str, Check] = {
    check.name: check
    for check in (
        Check(
            "tenants_alive",
            "invalid",
            "every tenant was built and served to the end: none crashed, hung or ran out of memory",
            "run the tenant alone with `cotenant run`, or give it a smaller batch",
        ),
        Check(
            "sharing_verified",
            "invalid",
            "the device was shared as requested, read back from the system",
            "`cotenant doctor` lists the sharing modes that work here",
        ),
        Check(
            "copies_equal",
            "invalid",
            "copies of a server resolved the same cache, batch limits and device, by their logs and metrics",
            "give each the same explicit memory: `server: {memory: ...}`, or `copies --memory`",
        ),
        Check(
            "controls_applied",
            "invalid",
            "clocks and limits were set as requested, and held",
            "choose a clock the power limit allows; `cotenant doctor` lists the controls that may be set",
        ),
        Check(
            "device_present",
            "invalid",
            "every device of the trial was present to the end",
            "check the driver's log (dmesg) for the cause; the other members' trials are valid",
        ),
        Check(
            "requests_succeed",
            "invalid",
            f"at most {FAILED_SHARE:.0%} of a tenant's requests raised an error",
            'the first error is in the `error` column: cotenant sql "select tenant, error from tenants" RUN',
        ),
        Check(
            "records_complete",
            "invalid",
            "the memory for request records was sufficient for the entire trial",
            "shorten the window or enlarge the batch: requests came faster than during the warm-up",
        ),
        Check(
            "requests_served",
            "invalid",
            "each tenant with requests due in the window served at least one",
            "lengthen the window: --set window=10s",
        ),
        Check(
            "enough_requests",
            "unstable",
            (
                f"each tenant had at least {REQUESTS_MIN} requests in the window; "
                f"windows below {JUDGED_ALONE_S:g} s are judged together"
            ),
            "lengthen the window: --set window=10s",
        ),
        Check(
            "load_sustained",
            "unstable",
            "all requests due in the window were served: an open load did not exceed the tenant's capacity",
            "lower the rate, or read the result as overload",
        ),
        Check(
            "on_schedule",
            "unstable",
            "requests that found the tenant idle were started when they were due",
            "other activity delays wake-ups on this machine: see `cotenant doctor`",
        ),
        Check(
            "steady",
            "unstable",
            (
                "latency was steady over the window (see `warmup` in the tenants table); for windows below "
                f"{JUDGED_ALONE_S:g} s, slowdowns were steady over the run"
            ),
            "lengthen the lead: --set lead=2s",
        ),
        Check(
            "quiet_machine",
            "unstable",
            (
                f"processes outside the study used less than {FOREIGN_SHARE:.0%} of the device and of its socket; less "
                f"than a third for windows below {JUDGED_ALONE_S:g} s, whose precision says what they cost"
            ),
            "stop other work on this machine; `cotenant doctor` lists it",
        ),
        Check(
            "device_free",
            "unstable",
            "no process outside the study was on the device",
            "stop it, or choose another device; `cotenant doctor` lists it",
        ),
        Check(
            "start_temperature",
            "unstable",
            "the device was as cool as the study's `before` requires when the trial began",
            "give it more time: --set before.timeout=15min",
        ),
        Check(
            "no_steal",
            "unstable",
            f"the hypervisor took less than {STEAL_SHARE:.0%} of the device's time; a third for short windows",
            "use a dedicated machine, or more blocks",
        ),
        Check(
            "clock_stable",
            "unstable",
            f"the clock varied by less than {CLOCK_SPREAD:.0%} over a window of at least {JUDGED_ALONE_S:g} s",
            "fix the clock (governor or locked clocks), or compare within blocks only",
        ),
        Check(
            "sensors_present",
            "unstable",
            "no sensor was lost or stuck during the trial",
            "`cotenant doctor` lists the sensors and why one may be missing",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class CheckedTenant:
    """Facts about a tenant in a trial that the checks use."""

    name: str
    fate: str | None = None
    """How its process ended early, or why it could not be built."""
    served: int = 0
    """Requests served in the window."""
    failed: int = 0
    """Requests in the window that raised."""
    unfinished: int = 0
    """Requests due in the window that were never completed."""
    error: str | None = None
    gave_up: bool = False
    """It failed so often in a row that it stopped."""
    overflowed: bool = False
    idle_lag_p99_ns: float | None = None
    median_latency_ns: float | None = None
    warmup: str | None = None


@dataclass(frozen=True, slots=True)
class CheckedTrial:
    """Facts about a trial that the checks use. None where unknown, so nothing is claimed."""

    tenants: tuple[CheckedTenant, ...]
    sharing_violations: tuple[str, ...] = ()
    unequal_copies: tuple[str, ...] = ()
    """One sentence for each quantity that copies of a server resolved differently."""
    control_violations: tuple[str, ...] = ()
    foreign_share: float | None = None
    beside_share: float | None = None
    """Share others used of the cores on the device's sockets, the device's own included."""
    steal_share: float | None = None
    clock_spread: float | None = None
    sensors_lost: tuple[str, ...] = ()
    devices_lost: tuple[str, ...] = ()
    not_ready: tuple[str, ...] = ()
    foreign_jobs: tuple[str, ...] = ()
    short: bool = False
    """One of many short windows: request counts and steadiness are judged over all of them."""
    simulated: bool = False
    """Simulated: a clock lowered by a power limit, and times that grow with it, are results."""

    @property
    def elsewhere(self) -> frozenset[str]:
        """Checks this trial is not judged by on its own."""
        judged_together = {"enough_requests", "steady", "clock_stable"} if self.short else set()
        return frozenset(judged_together | ({"steady", "clock_stable"} if self.simulated else set()))


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """A check that failed, and why."""

    check: Check
    reason: str


def failures(facts: CheckedTrial) -> tuple[CheckFailure, ...]:
    """Every failed check with a sentence, in the order of `CHECKS`."""
    problems: list[tuple[str, str]] = []
    for tenant in facts.tenants:
        problems += [failed for failed in _of_tenant(tenant) if failed[0] not in facts.elsewhere]
    problems += [("sharing_verified", sentence) for sentence in facts.sharing_violations]
    problems += [("copies_equal", sentence) for sentence in facts.unequal_copies]
    problems += [("controls_applied", sentence) for sentence in facts.control_violations]
    problems += [("device_present", sentence) for sentence in facts.devices_lost]
    problems += [("device_free", sentence) for sentence in facts.foreign_jobs]
    problems += [("start_temperature", sentence) for sentence in facts.not_ready]
    foreign_limit = FOREIGN_SHARE_SHORT if facts.short else FOREIGN_SHARE
    if facts.foreign_share is not None and facts.foreign_share >= foreign_limit:
        problems.append(("quiet_machine", f"other processes used {facts.foreign_share:.0%} of the device"))
    elif facts.beside_share is not None and facts.beside_share >= foreign_limit:
        problems.append(
            (
                "quiet_machine",
                f"other processes used {facts.beside_share:.0%} of the socket whose cache and memory it shares",
            )
        )
    if facts.steal_share is not None and facts.steal_share >= (STEAL_SHARE_SHORT if facts.short else STEAL_SHARE):
        problems.append(("no_steal", f"the hypervisor took {facts.steal_share:.0%} of the device's time"))
    spread = None if "clock_stable" in facts.elsewhere else facts.clock_spread
    if spread is not None and spread >= CLOCK_SPREAD:
        problems.append(("clock_stable", f"the clock varied by {spread:.0%} over the window"))
    problems += [("sensors_present", sentence) for sentence in facts.sensors_lost]
    rank = {name: position for position, name in enumerate(CHECKS)}
    return tuple(CheckFailure(CHECKS[name], reason) for name, reason in sorted(problems, key=lambda f: rank[f[0]]))


def verdict(failed: tuple[CheckFailure, ...]) -> Verdict:
    """The worst verdict of any failed check."""
    if any(failure.check.when_failed == "invalid" for failure in failed):
        return "invalid"
    return "unstable" if failed else "valid"


def _of_tenant(tenant: CheckedTenant) -> list[tuple[str, str]]:
    if tenant.fate is not None:
        return [("tenants_alive", f"{tenant.name} {tenant.fate}")]
    problems: list[tuple[str, str]] = []
    due = tenant.served + tenant.failed + tenant.unfinished
    if tenant.failed > FAILED_SHARE * due or tenant.gave_up:
        problems.append(
            ("requests_succeed", f"{tenant.failed} of {due} requests of {tenant.name} failed: {tenant.error}")
        )
    if tenant.overflowed:
        problems.append(("records_complete", f"{tenant.name} served more requests than could be recorded"))
    if tenant.served == 0 and due:
        problems.append(("requests_served", f"{tenant.name} served no request in the window"))
    elif tenant.served < REQUESTS_MIN:
        problems.append(("enough_requests", f"{tenant.name} served only {tenant.served} requests in the window"))
    if tenant.unfinished:
        problems.append(
            (
                "load_sustained",
                f"{tenant.unfinished} of {due} requests due in the window to {tenant.name} were not served",
            )
        )
    if tenant.idle_lag_p99_ns is not None and tenant.median_latency_ns is not None:
        allowed = max(LAG_FLOOR_NS, LAG_SHARE * tenant.median_latency_ns)
        if tenant.idle_lag_p99_ns > allowed:
            late_ms = tenant.idle_lag_p99_ns / 1e6
            problems.append(
                ("on_schedule", f"idle {tenant.name} started 1 % of its requests {late_ms:.1f} ms late or more")
            )
    if tenant.warmup not in {None, "flat"}:
        problems.append(("steady", f"the latency of {tenant.name} was not steady: {tenant.warmup}"))
    return problems
