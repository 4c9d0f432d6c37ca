"""The answer of `copies`: how many, which way, what it gains, what limits it, and what it costs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from cotenant.analyse.copy_options import CopiesOption
from cotenant.analyse.sharing.summary import Summary
from cotenant.tenancy.interval import Number
from cotenant.text import amount, figure, percent, size, times

# --- a single copy at rising load: beyond how many requests in flight does throughput stop growing?

STILL_GROWS = 0.05
"""Growth of the throughput per doubling of the load above which a copy is not saturated."""
ENOUGH = 1 / (1 + STILL_GROWS)
"""The lowest load with this share of the highest throughput is chosen: more only queues."""


@dataclass(frozen=True, slots=True)
class CopyLevel:
    """One copy with so many requests in flight."""

    outstanding: int
    throughput_rps: Number
    latency_ms: Number
    """Mean."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """One copy alone under rising load."""

    levels: tuple[CopyLevel, ...]
    """By requests in flight."""
    asked: int | None = None
    """Requests in flight that were asked for; None: to be found."""

    @property
    def chosen(self) -> CopyLevel | None:
        """The asked level, or the least that serves about as much as any; None if nothing was served."""
        if self.asked is not None:
            return next((level for level in self._served() if level.outstanding == self.asked), None)
        most = max((level.throughput_rps.est or 0.0 for level in self.levels), default=0.0)
        return next((level for level in self._served() if (level.throughput_rps.est or 0.0) >= ENOUGH * most), None)

    @property
    def saturated(self) -> bool:
        """A level above the chosen load was tried, and none served clearly more."""
        chosen = self.chosen
        if chosen is None or chosen.throughput_rps.est is None:
            return False
        above = [level for level in self._served() if level.outstanding > chosen.outstanding]
        limit = chosen.throughput_rps.est * (1 + STILL_GROWS)
        return bool(above) and all((level.throughput_rps.est or 0.0) <= limit for level in above)

    @property
    def sentence(self) -> str:
        """The finding as a sentence."""
        chosen = self.chosen
        if chosen is None or chosen.throughput_rps.est is None:
            return "One copy served no request."
        sentence = f"One copy serves {figure(chosen.throughput_rps.est)}/s with {chosen.outstanding} in flight"
        if self.saturated:
            return f"{sentence}, and no more with a higher load."
        best = max(self._served(), key=lambda level: level.throughput_rps.est or 0.0)
        if best.outstanding > chosen.outstanding:
            more = f"{figure(best.throughput_rps.est or 0.0)}/s with {best.outstanding}"
            return f"{sentence}, but {more}: it isn't saturated, so it is no baseline."
        return f"{sentence}, the most that was tried: it isn't saturated, so it is no baseline."

    def _served(self) -> list[CopyLevel]:
        return [level for level in self.levels if level.throughput_rps.est]


def levels_of(summary: Summary) -> Iterable[CopyLevel]:
    """The levels of a tuning run."""
    from cotenant.tenancy.load import Load  # loads pydantic, which showing a run doesn't need

    for tenant in summary.tenants:
        yield CopyLevel(
            Load.model_validate(tenant.cell.load).outstanding, tenant.throughput_rps, tenant.mean_latency_ms
        )


WORTH = 0.1
"""A gain below this isn't worth the memory of another copy."""
BUSY, IDLE = 0.8, 0.5
"""Shares of a resource above which it is the limit, and below which it is mostly idle."""
CopiesVerdict = Literal["copies", "one copy", "open", "no baseline", "failing", "none"]


@dataclass(frozen=True)
class CopiesAnswer:
    """One to N copies of a server on a device, compared."""

    server: str
    device: str
    host_cores: int
    failures: float
    """Share of starts that may fail before a way to share isn't recommended."""
    options: tuple[CopiesOption, ...]
    tuning: Tuning | None
    """None where the rate is given, or on a simulated device."""
    rate_rps: float | None
    """Rate of all copies together; None: each is kept busy."""
    simulated: bool
    left_out: tuple[str, ...]
    """Combinations that the device doesn't have, a sentence each."""
    folder: Path | None = None
    tuning_folders: tuple[Path, ...] = ()
    script: Path | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def single(self) -> CopiesOption | None:
        """One copy, alone."""
        return next((option for option in self.options if option.copies == 1), None)

    @cached_property
    def chosen(self) -> CopiesOption | None:
        """What to run; None if nothing can be recommended."""
        if self.verdict == "copies":
            return _fewest(self._eligible(), self.rate_rps is not None)
        return self.single if self.verdict == "one copy" else None

    @cached_property
    def verdict(self) -> CopiesVerdict:  # noqa: PLR0911 - one return per case
        """The answer in a word."""
        single, several = self.single, self._eligible()
        if self.tuning is not None and not self.tuning.saturated:
            return "no baseline"
        if single is None:
            return "open"
        if single.reliability.share > self.failures and not several:
            return "failing"
        if self.rate_rps is not None:
            return self._at_rate(single, several)
        if single.throughput_rps.est is None:
            return "open"
        if not several:
            return "one copy" if single.against(self.failures) is None else "none"
        best = max(several, key=lambda option: option.gain.est or 0.0)
        if best.gain.lo is not None and best.gain.lo > 1 and (best.gain.est or 0.0) >= 1 + WORTH:
            return "copies"
        if best.gain.hi is not None and best.gain.hi <= 1 + WORTH:
            return "one copy" if single.against(self.failures) is None else "none"
        return "open"

    @property
    def headline(self) -> list[str]:  # noqa: PLR0911 - one return per verdict
        """The answer, in sentences."""
        chosen, single = self.chosen, self.single
        match self.verdict:
            case "no baseline":
                assert self.tuning is not None
                return [f"Can't tell: {_lower(self.tuning.sentence)}", self._tuning_hint()]
            case "failing":
                assert single is not None
                return [f"Don't run copies of it yet: even one copy is unreliable: {single.against(self.failures)}."]
            case "none":
                return [f"No number of copies up to {self.options[-1].copies} does what was asked."]
            case "open":
                return ["Can't tell yet whether copies pay: more blocks would tell (--blocks, --budget)."]
            case "one copy":
                return [f"Run one copy: {self._why_one()}."]
        assert chosen is not None
        if self.rate_rps is not None:
            return [f"Run {chosen.label}: it holds {self.rate_rps:g}/s{self._kept(chosen)}; fewer copies don't."]
        return [f"Run {chosen.label}: {times(chosen.gain)} the throughput of one copy{self._kept(chosen)}."]

    @property
    def limit(self) -> str | None:  # noqa: PLR0911 - one return per limit
        """What limits more copies, or a single copy."""
        single, chosen = self.single, self.chosen
        if single is None:
            return None
        short = next((option for option in self.options if _out_of_memory(option)), None)
        if short is not None and (chosen is None or short.copies > chosen.copies):
            return f"Memory is the limit: {short.copies} copies didn't fit."
        at = chosen if chosen is not None and chosen.copies > 1 else single
        whose = "one copy" if at.copies == 1 else f"{at.copies} copies"
        if at.sm_active is not None:
            return self._gpu_limit(at, whose)
        if at.cores is None:
            return None
        used = f"{whose} used {at.cores:.1f} of {amount(self.host_cores, 'core')}"
        if at.cores >= BUSY * self.host_cores:
            return f"The cores are the limit: {used}."
        if at.copies == 1 and at.cores >= BUSY:
            return f"One thread is the limit: {used}."
        return f"{used[0].upper()}{used[1:]}: cores are not the limit."

    @property
    def cost(self) -> str | None:
        """What the chosen copies cost in memory."""
        single, chosen = self.single, self.chosen
        if single is None or chosen is None or chosen.copies == 1 or not single.memory_bytes or not chosen.memory_bytes:
            return None
        return f"They take {size(chosen.memory_bytes)} of memory; one copy takes {size(single.memory_bytes)}."

    @property
    def rejected(self) -> list[str]:
        """Why options can't be recommended, a sentence each."""
        found = []
        for option in self.options:
            against = option.against(self.failures)
            if against is not None:
                why = f" (last: {_short(option.reliability.why)})" if option.reliability.why else ""
                found.append(f"{option.label}: {against}{why}.")
        return found

    @property
    def remarks(self) -> list[str]:
        """What to know before relying on the answer."""
        found = list(self.notes)
        single = self.single
        for option in self.options if single is not None else ():
            assert single is not None
            differ = [
                key for key in single.resolved if option.resolved.get(key, single.resolved[key]) != single.resolved[key]
            ]
            if option.copies > 1 and differ:
                key = differ[0]
                found.append(
                    f"{option.label}: {key.replace('_', ' ')} {option.resolved[key]:,} each; one copy alone had "
                    f"{single.resolved[key]:,}. Give explicit memory (--memory) to compare like with like."
                )
        doubted = {check for option in self.options for check in option.doubts} - {
            "tenants_alive", "copies_equal", "load_sustained",
        }  # fmt: skip
        if doubted and not all(option.valid for option in self.options if option.throughput_rps.est is not None):
            found.append(f"Not every option has a valid trial ({', '.join(sorted(doubted))}): cotenant show says why.")
        return found

    @property
    def decided(self) -> bool:
        """The answer says what to run."""
        return self.verdict in {"copies", "one copy"}

    def with_script(self, script: Path) -> "CopiesAnswer":
        """The same answer, with a script that starts what it recommends."""
        return replace(self, script=script)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "schema_version": 1, "server": self.server, "device": self.device, "simulated": self.simulated,
            "verdict": self.verdict, "headline": self.headline, "limit": self.limit, "cost": self.cost,
            "chosen": self.chosen, "options": self.options, "rejected": self.rejected, "remarks": self.remarks,
            "left_out": self.left_out, "tuning": self.tuning, "rate_rps": self.rate_rps, "folder": self.folder,
            "tuning_folders": self.tuning_folders, "script": self.script,
        }  # fmt: skip

    def _eligible(self) -> list[CopiesOption]:
        return [option for option in self.options if option.copies > 1 and option.against(self.failures) is None]

    def _at_rate(self, single: CopiesOption, several: Sequence[CopiesOption]) -> CopiesVerdict:
        """The fewest copies that hold the rate and keep the objective."""
        if single.against(self.failures) is None and single.kept in {None, "kept"}:
            return "one copy"
        if single.against(self.failures) is None:
            return "open"
        good = [option for option in several if option.kept in {None, "kept"}]
        return "copies" if good else "open" if several else "none"

    def _why_one(self) -> str:
        if self.rate_rps is not None:
            assert self.single is not None
            return f"it holds {self.rate_rps:g}/s{self._kept(self.single)}"
        several = self._eligible()
        if not several:
            return "no larger number can be recommended"
        best = max(several, key=lambda option: option.gain.est or 0.0)
        return f"more don't pay; the best, {best.label}, gives {times(best.gain)} its throughput"

    def _kept(self, option: CopiesOption) -> str:
        return " and keeps the objective" if option.kept == "kept" else ""

    def _tuning_hint(self) -> str:
        assert self.tuning is not None
        if self.tuning.asked is not None:
            return "Leave --load out: the load is then raised until the throughput stops growing."
        return "Something other than this device limits it, or it only waits: give a rate and an objective instead."

    def _gpu_limit(self, at: CopiesOption, whose: str) -> str:
        assert at.sm_active is not None
        reason = f"with {whose}, SMs were active {percent(at.sm_active)} of the time"
        if at.dram_active is not None and at.dram_active >= BUSY:
            return f"Memory bandwidth is the limit: {reason}, memory {percent(at.dram_active)}."
        if at.sm_active >= BUSY:
            return f"The SMs are the limit: {reason}."
        if at.sm_active < IDLE and at.cores is not None and at.cores >= BUSY * at.copies:
            return f"The GPU was mostly idle; the host is the limit: {reason}, and {at.cores:.1f} cores were busy."
        return f"Neither SMs nor bandwidth are the limit: {reason}."


def _fewest(options: Sequence[CopiesOption], at_rate: bool) -> CopiesOption:
    """The fewest copies that do about as well as any; the way listed first among equals."""
    if at_rate:
        good = [option for option in options if option.kept in {None, "kept"}]
        return min(good, key=lambda option: option.copies)
    most = max(option.gain.est or 0.0 for option in options)
    enough = [option for option in options if (option.gain.est or 0.0) >= ENOUGH * most]
    fewest = min(option.copies for option in enough)
    return max((option for option in enough if option.copies == fewest), key=lambda option: option.gain.est or 0.0)


def _out_of_memory(option: CopiesOption) -> bool:
    why = (option.reliability.why or "").lower()
    return option.reliability.failed > 0 and any(word in why for word in ("out of memory", "no memory", "memoryerror"))


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]


def _short(text: str | None) -> str:
    line = " ".join((text or "").split())
    return line if len(line) <= 160 else f"{line[:157]}..."
