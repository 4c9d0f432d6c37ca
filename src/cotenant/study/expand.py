"""From a study to the trials of a block: pure, and deterministic for a study, seed and block."""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from cotenant.study.mixes import Mix, MixLists
from cotenant.study.model import Study
from cotenant.study.spread import NOWHERE, SpreadOver, placements
from cotenant.study.windows import expected
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Block, Tenant, Trial
from cotenant.tenancy.records import APART, OWN
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.values import Controls
from cotenant.tenancy.ways import ALONE
from cotenant.workloads.servers import is_server

Layouts = Mapping[tuple[str, str], Sequence[Sharing]]
"""By the label of a mix and the mode."""
NO_LAYOUTS: Layouts = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Cell:
    """A trial without its block."""

    mix: Mix
    sharing: Sharing
    settings: Controls
    level: Load | None
    """The study's load; None: every tenant has its own."""
    place: SpreadOver = NOWHERE

    @property
    def load(self) -> str:
        return OWN if self.level is None else label_of(self.level)


def expand(
    study: Study, block: int, modes: Sequence[str], members: Sequence[str] = (), layouts: Layouts = NO_LAYOUTS
) -> Block:
    """The trials of a block in random order.

    A block contains a solo trial (sharing `alone`) of every tenant that appears in any mix, at each load and setting:
    the baseline. Then each mix under each sharing, setting and load, `visits` times (once by default): tenants alone
    hardly vary, and mixes whose tenants meet by chance on a core vary a lot.

    ``Trial.seed`` is the same for all trials of a block: with `arrival_seed` a tenant sees the same arrivals alone
    and in company, so any difference is due to the company.

    Args:
        study: What to measure. Loads given as a share of capacity are left as they are.
        block: Number of the block from 0.
        modes: The ways to share that the device supports, for `sharing: all`.
        members: Names of a group's members: trials are spread over them, see `spread.placements`.
        layouts: Additional shares to try, by mix and mode.
    """
    cells = _cells(study, modes, members, layouts)
    lengths = expected(study)
    seed = stable_number(study.seed, "block", block)
    order = sorted(range(len(cells)), key=lambda index: stable_number(seed, "order", index))
    trials = tuple(
        Trial(
            number=block * len(cells) + index,
            block=block,
            order=position,
            mix=cells[index].mix.label + cells[index].place.suffix,
            tenants=_tenants(study, cells[index]),
            sharing=cells[index].sharing,
            settings=cells[index].settings,
            load=cells[index].load,
            window_s=lengths.window_s,
            lead_s=lengths.lead_s,
            seed=seed,
        )
        for position, index in enumerate(order)
    )
    return Block(number=block, trials=trials)


def trials_per_block(study: Study, modes: Sequence[str], members: Sequence[str] = ()) -> int:
    """Number of trials per block."""
    return len(_cells(study, modes, members))


SERVER_OUTSTANDING = 32
"""Enough to fill any batch that a server forms by default."""


def needs_capacity(study: Study) -> tuple[Tenant, ...]:
    """The tenants whose load is a share of their solo capacity, with a closed load to measure it.

    A server does most with many requests in flight: its capacity is measured with `SERVER_OUTSTANDING`.
    """
    deep = Load(kind="closed", outstanding=SERVER_OUTSTANDING)
    return tuple(
        tenant.model_copy(update={"load": deep}) if is_server(tenant.workload.name) else tenant
        for tenant in closed_tenants(study)
        if any(load.open and load.rate_share is not None for load in _loads_of(study, tenant.name))
    )


def closed_tenants(study: Study) -> tuple[Tenant, ...]:
    """Every measured tenant, never idle and with a single request in flight."""
    closed = Load(kind="closed")
    return tuple(study.tenants[name].tenant(name, name, closed) for name in study.measured())


def arrival_seed(trial: Trial, tenant: Tenant) -> int:
    """Seed of a tenant's schedule: equal in all trials of a block, different for copies within a mix.

    The first copy sees the same arrivals as the tenant alone.
    """
    name = tenant.name if tenant.member is None else tenant.name.rpartition("@")[0]
    copy = name.removeprefix(tenant.of).removeprefix("#") or "1"
    return stable_number(trial.seed, "arrivals", tenant.of, copy)


def label_of(load: Load) -> str:
    """Label of a load in results: a trace by its file name, wherever the file is."""
    if load.path is None:
        return str(load)
    return str(load.model_copy(update={"path": load.path.replace("\\", "/").rsplit("/", 1)[-1]}))


def stable_number(*parts: int | str) -> int:
    """A number from 0 to 2^63 - 1 that depends only on the parts: not on the process, platform or version."""
    digest = hashlib.sha256(json.dumps(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _loads_of(study: Study, tenant: str) -> tuple[Load, ...]:
    own = study.tenants[tenant].load
    return study.loads if own is None else (own,)


def _levels(study: Study, mix: Mix) -> tuple[Load | None, ...]:
    """The study's loads, unless every tenant of the mix has its own."""
    heeded = any(study.tenants[member].arrivals is None for member in mix.members)
    return study.loads if heeded else (None,)


def _cells(
    study: Study, modes: Sequence[str], members: Sequence[str], layouts: Layouts = NO_LAYOUTS
) -> tuple[_Cell, ...]:
    """The block's trials in canonical order: each tenant alone once, each way to share a mix as often as asked."""
    once: dict[tuple[str, ...], _Cell] = {}
    for cell in [*_solo_cells(study), *_shared_cells(study, modes, layouts)]:
        once.setdefault(_identity(cell), cell)
    return tuple(
        _placed(cell, spread)
        for spread in placements(study.spread, members)
        for cell in once.values()
        for _ in range(1 if cell.sharing.mode == ALONE else study.blocks.visits)
    )


def _placed(cell: _Cell, spread: SpreadOver) -> _Cell:
    """The cell on some members. Tenants on separate members share nothing: `apart`."""
    apart = cell.sharing.mode == ALONE and spread.suffix
    return replace(cell, place=spread, sharing=Sharing(mode=APART) if apart else cell.sharing)


def _solo_cells(study: Study) -> Iterator[_Cell]:
    """A baseline for every tenant at every load level under which a mix has it.

    A tenant with its own load is measured alone again under each label of its mixes: trials are compared at equal
    labels.
    """
    mixes = study.mix_list()
    for name in study.measured():
        solo = Mix(name, (name,))
        levels = [level for mix in mixes if name in mix.members for level in _levels(study, mix)]
        for settings in study.settings:
            for level in levels or _levels(study, solo):
                yield _Cell(solo, Sharing(mode=ALONE), settings, level)


def _shared_cells(study: Study, modes: Sequence[str], layouts: Layouts) -> Iterator[_Cell]:
    for mix in study.mix_list():
        for way in study.sharings(modes):
            named = way.among(len(mix.members))
            for sharing in (named, *layouts.get((mix.label, named.mode), ())):
                for settings in study.settings:
                    for level in _levels(study, mix):
                        yield _Cell(mix, sharing, settings, level)


def _identity(cell: _Cell) -> tuple[str, ...]:
    """Identity of a cell: tenants, sharing and load; the order of the members matters only with shares."""
    members = cell.mix.members if cell.sharing.shares else tuple(sorted(cell.mix.members))
    return (
        json.dumps(members),
        json.dumps([cell.sharing.mode, *cell.sharing.shares]),
        json.dumps(cell.settings, sort_keys=True),
        cell.load,
    )


def _tenants(study: Study, cell: _Cell) -> tuple[Tenant, ...]:
    """The mix; on a group once for each member, and named after it."""
    tenants = []
    for name, member in zip(cell.mix.names, cell.mix.members, strict=True):
        entry = study.tenants[member]
        load = entry.arrivals or cell.level
        assert load is not None, "the tenants of a cell without a level have their own loads"
        tenants.append(entry.tenant(name, member, load.divided(cell.mix.divided or entry.replicas or 1)))
    if not cell.place.members:
        return tuple(tenants)
    return tuple(
        tenant.model_copy(update={"name": f"{tenant.name}@{number}", "member": member})
        for number, member in zip(cell.place.numbers, cell.place.members, strict=True)
        for tenant in tenants
    )


def without(study: Study, names: Collection[str]) -> Study:
    """The same study for a device on which these tenants don't fit."""
    mixes = tuple(_kept(rule, names) if isinstance(rule, MixLists) else rule for rule in study.mixes)
    tenants = {name: entry for name, entry in study.tenants.items() if name not in names}
    return study.model_copy(update={"tenants": tenants, "mixes": mixes}).placed(study.places)


def _kept(rule: MixLists, names: Collection[str]) -> MixLists:
    beside = {
        base: tuple(name for name in others if name not in names)
        for base, others in rule.beside.items()
        if base not in names
    }
    return MixLists(
        copies={name: counts for name, counts in rule.copies.items() if name not in names},
        beside={base: others for base, others in beside.items() if others},
        groups={name: group for name, group in rule.groups.items() if not set(group) & set(names)},
    )
