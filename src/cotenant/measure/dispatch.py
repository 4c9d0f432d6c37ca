"""Assigns blocks to hosts. Pure: results, losses and requests arrive as calls.

A block is never divided over hosts: its trials are compared with each other. Where hosts divide the work, each takes
the next unassigned blocks; otherwise each goes through all of them. A block that a lost host had begun goes to another
host, which repeats it from its start.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from cotenant.analyse.sharing import CellKey, CurrentSlowdown
from cotenant.measure.bench import Stretch
from cotenant.measure.calibration import FIRST_NUMBER
from cotenant.study.model import Study
from cotenant.study.windows import Windows
from cotenant.tenancy.nouns import Tenant, Trial
from cotenant.tenancy.records import STOPPED_BLOCK, WHOLE_BLOCK
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.ways import ALONE

Missing = Callable[[int, str], Sequence[Trial]]
"""The trials of a block that are left to do on a host."""


class Dispatch:
    """Blocks, and the hosts they are assigned to."""

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        divided: bool,
        blocks_max: int,
        missing: Missing,
        stretch_s: float = 0.0,
        turns: Mapping[str, str] | None = None,
    ) -> None:
        """Create a dispatcher.

        Args:
            hosts: The participating hosts.
            divided: True: each block is done once, by any host. False: each host does every block.
            blocks_max: Blocks are numbered from 0 to below this.
            missing: Called once for each block and host.
            stretch_s: Blocks are assigned together until their trials take this long.
            turns: Hosts with the same value don't work at the same time.
        """
        self.hosts = list(hosts)
        self._divided, self._max, self._missing, self._turns = divided, blocks_max, missing, dict(turns or {})
        self._stretch_s = stretch_s
        self._next = dict.fromkeys(hosts, 0)
        self._first = 0
        self._returned: list[int] = []
        self.owned: dict[str, Stretch] = {}
        self.stopped = False

    @property
    def begun(self) -> int:
        """One more than the highest block ever assigned."""
        return self._first if self._divided else max(self._next.values(), default=0)

    @property
    def finished(self) -> int:
        """Blocks that are done or not needed; if every host does all blocks, those that all of them have done."""
        owned = {host: stretch.after - stretch.first for host, stretch in self.owned.items()}
        if self._divided:
            return self._first - sum(owned.values()) - len(self._returned)
        return min((self._next[host] - owned.get(host, 0) for host in self.hosts), default=0)

    def next(self, host: str) -> Stretch | None:
        """Assign blocks to the host; None: it has some, there are none left for it, or it isn't its turn."""
        if host in self.owned or host not in self.hosts or self._another_turn(host):
            return None
        stretch = self._take(host)
        if stretch is not None:
            self.owned[host] = stretch
        return stretch

    def done(self, host: str) -> None:
        """The host's blocks are on disk."""
        self.owned.pop(host, None)

    def lose(self, host: str) -> Stretch | None:
        """The host is gone; return what it had begun."""
        self.hosts = [other for other in self.hosts if other != host]
        stretch = self.owned.pop(host, None)
        if stretch is not None and self._divided:
            self._returned += range(stretch.first, stretch.after)
        return stretch

    def stop(self) -> None:
        """Assign no new blocks; those already begun are still finished."""
        self.stopped = True

    def _another_turn(self, host: str) -> bool:
        mine = self._turns.get(host)
        return mine is not None and any(self._turns.get(other) == mine for other in self.owned)

    def _take(self, host: str) -> Stretch | None:
        while self._returned:  # once begun, a block is finished even if no more are wanted
            block = self._returned.pop(0)
            if trials := tuple(self._missing(block, host)):
                return Stretch(block, block + 1, trials)
        return None if self.stopped else self._new(host)

    def _new(self, host: str) -> Stretch | None:
        """The next blocks with something to do; the others are skipped for good."""
        first: int | None = None
        trials: list[Trial] = []
        block = self._first if self._divided else self._next[host]
        while block < self._max and (not trials or _seconds(trials) < self._stretch_s):
            missing = self._missing(block, host)
            if missing and first is None:
                first = block
            trials += missing
            block += 1
        if self._divided:
            self._first = block
        else:
            self._next[host] = block
        return None if first is None else Stretch(first, block, tuple(trials))


def _seconds(trials: Sequence[Trial]) -> float:
    return sum(trial.window_s + trial.lead_s for trial in trials)


# --- solo trials around a run of servers: each with the others stopped, and once with all of the device's memory

Moment = Literal["before", "after"]
_FIRST = {"before": FIRST_NUMBER + 100_000, "after": FIRST_NUMBER + 200_000, "whole": FIRST_NUMBER + 300_000}
SHORTEST_S = 2.0


def bracket_trials(study: Study, moment: Moment, lengths: Windows) -> Iterator[Trial]:
    """Trials to run then; each needs every other tenant stopped."""
    if not study.alone_stopped or study.fresh == "trial":  # the others are always stopped
        return
    servers = [name for name in study.measured() if study.tenants[name].spec().server is not None]
    shared = any(len(mix.members) > 1 for mix in study.mix_list())
    for place, name in enumerate(servers):
        entry = study.tenants[name]
        tenant = entry.tenant(name, name, entry.arrivals or study.loads[0])
        if shared:
            yield _alone(tenant, study, _FIRST[moment] + place, STOPPED_BLOCK, lengths)
        whole = entry.server.with_whole_memory() if entry.server is not None else None
        if whole is not None and moment == "before":
            spec = tenant.workload.model_copy(update={"server": whole})
            roomy = tenant.model_copy(update={"workload": spec})
            yield _alone(roomy, study, _FIRST["whole"] + place, WHOLE_BLOCK, lengths)


def _alone(tenant: Tenant, study: Study, number: int, block: int, lengths: Windows) -> Trial:
    return Trial(
        number=number,
        block=block,
        order=number - FIRST_NUMBER,
        mix=tenant.name,
        tenants=(tenant,),
        sharing=Sharing(mode=ALONE),
        load=str(tenant.load),
        window_s=max(lengths.window_s, SHORTEST_S),
        lead_s=lengths.lead_s,
        seed=study.seed,
    )


# --- selects the cells of a block to visit: precise ones less often, so that others get the time

SELDOM = 4
"""A cell that is precise enough is visited once in this many blocks."""
RELAXED, RELAXED_EVERY = 0.5, 2
"""A cell at most this share as wide as the widest is visited once in this many blocks: a run waits for the widest."""
LOOK_AGAIN = 1.25
"""Widths are judged again after this many times the blocks: in the short term they vary by chance."""

Cells = frozenset[CellKey]


class Visits:
    """Cells visited less often, by block; kept in the manifest, so that a resumed run skips the same."""

    def __init__(self, kept: Sequence[Any] = ()) -> None:
        self._since = [(int(visit["from"]), _cells(visit["cells"]), _cells(visit.get("relaxed", ()))) for visit in kept]

    def note(self, block: int, widths: Mapping[CellKey, float], target: float, *, relax: bool = False) -> bool:
        """Choose the cells to visit less often from this block on, by their half-widths; return True if that is new.

        ``relax``: also those that are far more precise than others.
        """
        since, *before = self._since[-1] if self._since else (0, Cells(), Cells())
        precise, relaxed = Cells(cell for cell, width in widths.items() if width <= target), before[1]
        if relax and block >= LOOK_AGAIN * since:
            widest = max(widths.values(), default=0.0)
            relaxed = Cells(cell for cell, width in widths.items() if width <= RELAXED * widest < math.inf)
        if [precise, relaxed] == before:
            return False
        self._since.append((block, precise, relaxed))
        return True

    def of(self, trials: Sequence[Trial], block: int) -> tuple[Trial, ...]:
        """The trials of a block to carry out, in order."""
        nothing = (0, Cells(), Cells())
        _, precise, relaxed = next((visit for visit in reversed(self._since) if visit[0] <= block), nothing)
        return visited(trials, block, precise, relaxed)

    def to_json(self) -> list[dict[str, Any]]:
        """As JSON, for the manifest."""
        return [
            {"from": block, "cells": sorted(map(list, cells)), "relaxed": sorted(map(list, relaxed))}
            for block, cells, relaxed in self._since
        ]


def widths_of(now: Iterable[CurrentSlowdown], lacking: Collection[CellKey], target: float) -> dict[CellKey, float]:
    """The widest half-width of each cell; a cell with too few requests for an objective isn't precise enough yet."""
    widths: dict[CellKey, float] = {}
    for slowdown in now:
        cell, width = (slowdown.mix, slowdown.sharing, slowdown.load), slowdown.estimate.relative_half_width
        widths[cell] = max(widths.get(cell, 0.0), math.inf if width is None else width)
    for cell in widths.keys() & set(lacking):
        widths[cell] = max(widths[cell], math.nextafter(target, math.inf))
    return widths


def _cells(kept: Iterable[Any]) -> Cells:
    return Cells(tuple(cell) for cell in kept)


def cell_of(trial: Trial) -> CellKey:
    """The cell that a trial visits."""
    return trial.mix, str(trial.sharing), trial.load


def visited(
    trials: Sequence[Trial], block: int, precise: Collection[CellKey], relaxed: Collection[CellKey] = ()
) -> tuple[Trial, ...]:
    """All trials of every fourth block; in the others those of cells that need it, and their baselines."""
    resting = {*(precise if block % SELDOM else ()), *(relaxed if block % RELAXED_EVERY else ())}
    wanting = [trial for trial in trials if not trial.solo and cell_of(trial) not in resting]
    if not resting or not wanting:
        return tuple(trials)
    kept = {trial.number for trial in wanting}
    needed = {_baseline(trial, tenant.of) for trial in wanting for tenant in trial.tenants}
    return tuple(
        trial
        for trial in trials
        if trial.number in kept
        or (trial.solo and any(_baseline(trial, tenant.of) in needed for tenant in trial.tenants))
    )


def _baseline(trial: Trial, of: str) -> tuple[str, str, str]:
    """What a mix shares with the solo trials it is compared with."""
    return of, trial.load, str(sorted(trial.settings.items()))
