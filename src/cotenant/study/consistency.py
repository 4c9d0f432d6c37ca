"""Contradictions between keys of a study."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cotenant.study.expand import label_of, trials_per_block
from cotenant.study.mixes import Mix, MixLists, mixes_of, pair_label
from cotenant.study.model import Study
from cotenant.study.windows import expected
from cotenant.tenancy.device_names import DeviceName
from cotenant.tenancy.document import Path
from cotenant.tenancy.load import MOST_ARRIVALS, Load
from cotenant.tenancy.objective import objective_for
from cotenant.tenancy.ways import EQUAL
from cotenant.tenancy.words import did_you_mean, shown
from cotenant.text import amount
from cotenant.workloads.protocol import in_steps
from cotenant.workloads.servers import is_server

MOST_TENANTS = 200
MOST_TRIALS = 100_000


EVERY_TENANT = "tenants.*"
"""What rests on the contents of every tenant, not only on their names."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A problem with a key that depends on other keys."""

    path: Path
    sentence: str
    rests_on: frozenset[str]
    """Top-level keys involved; if any is invalid, the problem may be spurious."""


def contradictions(study: Study) -> list[Contradiction]:
    """All reasons why a study can't be run as written, on any device."""
    problems = [*_tenants(study), *_lists(study), *_blocks(study), *_loads(study), *_divided(study)]
    unknown = [*_unknown_members(study)]
    if len(study.tenants) <= MOST_TENANTS:
        problems += [*_labels(study), *_shares(study)]
        problems += [] if unknown else [*_size(study)]
    return [*problems, *unknown]


def _tenants(study: Study) -> Iterator[Contradiction]:
    on = frozenset({"tenants"})
    if not study.tenants:
        yield Contradiction(("tenants",), "is empty; name at least one tenant", on)
    if len(study.tenants) > MOST_TENANTS:
        yield Contradiction(("tenants",), f"has {len(study.tenants)} tenants; at most {MOST_TENANTS} are allowed", on)


def _lists(study: Study) -> Iterator[Contradiction]:
    for key in ("mixes", "sharing", "settings", "loads"):
        if len(getattr(study, key)) == 0:
            yield Contradiction((key,), "is an empty list; leave the key out for its default", frozenset({key}))
    if len(study.tenants) == 1 and study.mixes and all(rule in ("pairs", "all") for rule in study.mixes):
        sentence = "a mix needs 2 tenants, and there is 1; write [solo] to measure it alone"
        yield Contradiction(("mixes",), sentence, frozenset({"mixes", "tenants"}))
    for path, rule in _spelled_out(study):
        if not rule.copies and not rule.replicas and not rule.beside and not rule.groups:
            sentence = "expected copies, replicas, beside or groups in this mapping"
            yield Contradiction(path, sentence, frozenset({"mixes"}))


def _spelled_out(study: Study) -> Iterator[tuple[Path, MixLists]]:
    for index, rule in enumerate(study.mixes):
        if isinstance(rule, MixLists):
            yield ("mixes", index), rule


def _unknown_members(study: Study) -> Iterator[Contradiction]:
    for path, rule in _spelled_out(study):
        for key, several in (("copies", rule.copies), ("replicas", rule.replicas)):
            for tenant, counts in several.items():
                yield from _unknown(study, (*path, key, tenant), tenant)
                if not counts:
                    sentence = f"expected how many {key}, such as [2, 3, 4], not an empty list"
                    yield Contradiction((*path, key, tenant), sentence, frozenset({"tenants"}))
        yield from _unknown_beside(study, (*path, "beside"), rule)
        yield from _unknown_in_groups(study, (*path, "groups"), rule)


def _unknown(study: Study, path: Path, name: str) -> Iterator[Contradiction]:
    if name not in study.tenants:
        near = did_you_mean(name, study.tenants)
        yield Contradiction(path, f"there is no tenant {shown(name)} in this study{near}", frozenset({"tenants"}))


def _unknown_beside(study: Study, path: Path, rule: MixLists) -> Iterator[Contradiction]:
    for base, tests in rule.beside.items():
        inner = (*path, base)
        yield from _unknown(study, inner, base)
        if base in tests:
            sentence = f"{shown(base)} beside itself is a matter of copies"
            yield Contradiction(inner, sentence, frozenset({"tenants"}))
        for index, test in enumerate(tests):
            yield from _unknown(study, (*inner, index), test)


def _unknown_in_groups(study: Study, path: Path, rule: MixLists) -> Iterator[Contradiction]:
    on = frozenset({"tenants"})
    for group, members in rule.groups.items():
        inner = (*path, group)
        if len(members) < 2:
            sentence = f"a group needs at least 2 tenants, not {len(members)}; solo trials are always measured"
            yield Contradiction(inner, sentence, on)
        if "+" in group and group != pair_label(members):
            sentence = f"a name with + must be that of the members, {shown(pair_label(members))}"
            yield Contradiction(inner, sentence, on)
        for index, member in enumerate(members):
            yield from _unknown(study, (*inner, index), member)


def _labels(study: Study) -> Iterator[Contradiction]:
    on = frozenset({"mixes", "tenants"})
    taken: dict[str, tuple[str, ...]] = {name: (name,) for name in study.tenants}
    for path, mix in _mixes_with_paths(study):
        members = taken.setdefault(mix.label, mix.members)
        if members != mix.members:
            what = "a tenant" if members == (mix.label,) else "another mix"
            yield Contradiction(path, f"{what} is called {shown(mix.label)} too; rename one of them", on)


def _mixes_with_paths(study: Study) -> Iterator[tuple[Path, Mix]]:
    for index, rule in enumerate(study.mixes):
        for mix in mixes_of((rule,), tuple(study.tenants)):
            inner: Path = ("mixes", index)
            if isinstance(rule, MixLists):
                inner = (*inner, *_key_of(mix, rule))
            yield inner, mix


def _key_of(mix: Mix, rule: MixLists) -> Path:
    if mix.label in rule.groups:
        return "groups", mix.label
    if len(set(mix.members)) == 1:
        return "copies" if mix.divided is None else "replicas", mix.members[0]
    return "beside", mix.members[-1]


def _shares(study: Study) -> Iterator[Contradiction]:
    if study.sharing == "all":
        return
    for index, sharing in enumerate(study.sharing):
        wrong = [
            mix
            for mix in study.mix_list()
            if sharing.shares and len(mix.members) != len(sharing.among(len(mix.members)).shares)
        ]
        if wrong:
            first, others = wrong[0], len(wrong) - 1
            more = f" (and {others} more mixes differ)" if others > 1 else " (and 1 more mix differs)" if others else ""
            sentence = (
                f"{sharing} has {amount(len(sharing.shares), 'share')}, "
                f"but the mix {shown(first.label)} has {amount(len(first.members), 'tenant')}{more}"
            )
            yield Contradiction(("sharing", index), sentence, frozenset({"sharing", "mixes", "tenants"}))


def disagreeing_shares(study: Study) -> Iterator[Contradiction]:
    """Shares that a tenant and the way to share give differently; every verb refuses them."""
    on = frozenset({"sharing", "mixes", "tenants", EVERY_TENANT})
    if study.sharing == "all" or len(study.tenants) > MOST_TENANTS:
        return
    everyone = Mix("all", tuple(study.tenants))
    for sharing in (mode for mode in study.sharing if mode.shares != (EQUAL,)):
        mixes = [mix for mix in (*study.mix_list(), everyone) if len(mix.members) == len(sharing.shares)]
        for member, share in dict.fromkeys(
            pair for mix in mixes for pair in zip(mix.members, sharing.shares, strict=True)
        ):
            own = study.tenants[member].share if member in study.tenants else None
            if type(own) is type(share) and own != share:
                sentence = f"is {_share_shown(own)}, but sharing: {sharing} gives it {_share_shown(share)}"
                yield Contradiction(("tenants", member, "share"), sentence, on)


def _share_shown(share: float | str) -> str:
    return f"{share:g}%" if isinstance(share, float) else share


def _blocks(study: Study) -> Iterator[Contradiction]:
    low, high = study.blocks.min, study.blocks.max
    if low > high:
        sentence = f"min is {low}, which is more than max, {high}"
        yield Contradiction(("blocks",), sentence, frozenset({"blocks"}))
    if low == high and study.until is not None and "until" in study.model_fields_set:
        sentence = f"has no room: the number of blocks is fixed at {low}; give blocks a min and a larger max"
        yield Contradiction(("until",), sentence, frozenset({"blocks", "until"}))


def _trial_s(study: Study) -> float:
    lengths = expected(study)
    return lengths.window_s + lengths.lead_s


def _loads(study: Study) -> Iterator[Contradiction]:
    on = frozenset({"loads", "tenants"})
    seen: dict[str, Load] = {}
    named: list[tuple[Path, Load]] = [(("loads", index), load) for index, load in enumerate(study.loads)]
    named += [(("tenants", name, "load"), entry.load) for name, entry in study.tenants.items() if entry.load]
    for path, load in named:
        first = seen.setdefault(label_of(load), load)
        if first.path != load.path:
            sentence = f"{label_of(load)} refers to two different files; rename one of the traces"
            yield Contradiction(path, sentence, on)
        requests = (load.rate_rps or 0.0) * _trial_s(study)
        if requests > MOST_ARRIVALS:
            sentence = f"{load} means {requests:.2g} requests in one trial; at most {MOST_ARRIVALS:,} are sent"
            yield Contradiction(path, sentence, frozenset({"window", "lead"}))


def _divided(study: Study) -> Iterator[Contradiction]:
    """A recorded trace without a rate has no part for a replica."""
    listed = {tenant for _, rule in _spelled_out(study) for tenant in rule.replicas}
    for name, entry in study.tenants.items():
        loads = study.loads if entry.load is None else (entry.load,)
        if (name in listed or (entry.replicas or 1) > 1) and any(
            load.kind == "trace" and load.rate_rps is None and load.rate_share is None for load in loads
        ):
            sentence = "a trace is divided among replicas by its rate: write trace(file.csv, 50)"
            yield Contradiction(("tenants", name, "load"), sentence, frozenset({"tenants", "loads", "mixes"}))


def _size(study: Study) -> Iterator[Contradiction]:
    # The ways that `all` stands for are known only with the device, and every device has some.
    ways = 1 if study.sharing == "all" else len(study.sharing)
    most = (len(study.mix_list()) * ways + len(study.measured())) * len(study.settings) * len(study.loads)
    on = frozenset({"tenants", "mixes", "sharing", "settings", "loads"})
    if most > MOST_TRIALS:
        yield Contradiction((), f"a block would have {most} trials; at most {MOST_TRIALS} are allowed", on)
        return
    # Counted for a single way to share, so that the result is the same before and after `all` is expanded, and for one
    # device: their number is known only later.
    trials = trials_per_block(study.model_copy(update={"sharing": "all", "spread": None}), ("processes",))
    needed = study.blocks.min * trials * _trial_s(study)
    if study.budget_s is not None and needed > study.budget_s:
        sentence = (
            f"{study.budget_s:g}s is too short for {amount(study.blocks.min, 'block')} of at least "
            f"{amount(trials, 'trial')}, {needed:.4g}s; raise it, shorten the window or lower blocks.min"
        )
        yield Contradiction(("budget",), sentence, on | {"budget", "blocks", "window", "lead", EVERY_TENANT})


# --- infeasible tenants, found before the first trial from the time of each tenant's request alone. Pure


def demanding(study: Study) -> tuple[str, ...]:
    """Tenants with a rate or a latency limit: for the others `impossible` needs no time of a request."""
    return tuple(name for name in study.measured() if _open_loads(study, name) or _limit_s(study, name) is not None)


def _open_loads(study: Study, name: str) -> Sequence[tuple[Load, float]]:
    """Loads with a rate, which a tenant without batching may not keep up with, and their rates."""
    entry = study.tenants[name]
    batches = entry.most_at_once > 1 and DeviceName(study.device or "").simulated
    if batches or is_server(entry.workload or "") or in_steps(entry.spec()):
        return ()
    loads = study.loads if entry.arrivals is None else (entry.arrivals,)
    return [(load, load.rate_rps) for load in loads if load.rate_rps is not None]


def _limit_s(study: Study, name: str) -> float | None:
    objective = objective_for(study.tenants[name].slo, "latency")
    return None if objective is None else objective.limit_ms / 1e3


def impossible(study: Study, alone_s: Mapping[str, float]) -> Iterator[str]:
    """A sentence for each tenant that can't keep up with its load, or can't meet its objective, even alone.

    Args:
        study: What to measure.
        alone_s: Seconds of a request alone, by tenant; others are skipped.
    """
    for name in study.measured():
        if name not in alone_s:
            continue
        request_s, limit_s = alone_s[name], _limit_s(study, name)
        for load, rate_rps in _open_loads(study, name):
            busy = rate_rps * request_s
            if busy > 1:
                yield (
                    f"{name} can't keep up with {load} even alone: at {_time(request_s)} a request it would be "
                    f"busy for {busy:.2g} s of every second."
                )
        if limit_s is not None and limit_s < request_s:
            yield (
                f"{name} can't meet its objective even alone: the limit is {_time(limit_s)}, and a "
                f"request takes {_time(request_s)}."
            )


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
