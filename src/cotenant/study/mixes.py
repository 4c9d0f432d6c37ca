"""Which tenants run at the same time: the rules of the file, and the mixes they stand for."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, PlainValidator, Tag, WithJsonSchema

from cotenant.tenancy.validation_errors import LISTS, WORD
from cotenant.tenancy.values import Copies, Frozen, GroupName, Name
from cotenant.tenancy.words import did_you_mean, expected

WORDS = ("solo", "pairs", "all")


@dataclass(frozen=True, slots=True)
class Mix:
    """Tenants of the study that run together, by name, in order; a name may repeat."""

    label: str
    members: tuple[str, ...]
    divided: int | None = None
    """Replicas that divide the tenant's load; None: as the tenant's own `replicas` say."""

    @property
    def names(self) -> tuple[str, ...]:
        """The members' names within the mix: copies of a tenant are `a#1`, `a#2`."""
        times = Counter(self.members)
        seen: Counter[str] = Counter()
        named = []
        for member in self.members:
            seen[member] += 1
            named.append(f"{member}#{seen[member]}" if times[member] > 1 else member)
        return tuple(named)


class MixLists(Frozen):
    """Explicit mixes."""

    copies: Mapping[Name, tuple[Copies, ...]] = Field(
        default_factory=dict,
        description="Copies of a tenant beside each other: how many, for each tenant.",
        examples=[{"distilgpt2": [2, 3, 4, 10]}],
    )
    replicas: Mapping[Name, tuple[Copies, ...]] = Field(
        default_factory=dict,
        description="Replicas of a tenant that divide its load: how many, for each tenant.",
        examples=[{"chat": [2, 3, 4]}],
    )
    beside: Mapping[Name, tuple[Name, ...]] = Field(
        default_factory=dict,
        description="Pairs with a fixed base: the tenants measured beside it, for each base.",
        examples=[{"sgemm": ["resnet50", "bert"]}],
    )
    groups: Mapping[GroupName, tuple[Name, ...]] = Field(
        default_factory=dict,
        description="Named groups of tenants that run together; a tenant may repeat.",
        examples=[{"encoders": ["bert-mini", "roberta-mini"]}],
    )


def _word(value: Any) -> str:
    if value not in WORDS:
        near = did_you_mean(value, WORDS) if isinstance(value, str) else ""
        lists = (
            "{copies: {tenant: [2, 3]}}, {replicas: {tenant: [2, 3]}}, {beside: {tenant: [tenant]}} or "
            "{groups: {name: [tenant, tenant]}}"
        )
        raise expected(f"{', '.join(WORDS)}, {lists}", value, near)
    return str(value)


def _form(value: Any) -> str:
    return LISTS if isinstance(value, dict | MixLists) else WORD


Word = Annotated[
    Literal["solo", "pairs", "all"], PlainValidator(_word), WithJsonSchema({"type": "string", "enum": list(WORDS)})
]
MixRule = Annotated[Annotated[Word, Tag(WORD)] | Annotated[MixLists, Tag(LISTS)], Discriminator(_form)]


def mixes_of(rules: Sequence[MixRule], tenants: Sequence[str]) -> tuple[Mix, ...]:
    """The mixes of several tenants that the rules stand for, in the rules' order, each label once.

    Solo trials don't count as mixes here: they are the baseline of every block, see `expand`.
    """
    first: dict[str, Mix] = {}
    for rule in rules:
        for mix in _mixes_of_one(rule, tenants):
            first.setdefault(mix.label, mix)
    return tuple(first.values())


def members_of(rules: Sequence[MixRule], tenants: Sequence[str]) -> tuple[str, ...]:
    """The tenants that appear in any mix, in the study's order."""
    used = {member for mix in mixes_of(rules, tenants) for member in mix.members}
    return tuple(name for name in tenants if "solo" in rules or name in used)


def replica_mix(tenant: str, count: int) -> Mix:
    """Replicas of a tenant that divide its load."""
    return Mix(f"{tenant} /{count}", (tenant,) * count, count)


def with_replicas(mixes: Sequence[Mix], replicas: Mapping[str, int]) -> tuple[Mix, ...]:
    """The mixes with as many replicas as their tenants have; first the replicas of each tenant by themselves."""
    own = {mix.label: mix for mix in (replica_mix(name, count) for name, count in replicas.items())}
    for mix in mixes:
        several = len(set(mix.members)) == 1  # copies of the same tenant: as many as the study says
        members = (
            mix.members
            if several
            else tuple(member for name in mix.members for member in (name,) * replicas.get(name, 1))
        )
        own.setdefault(mix.label, Mix(mix.label, members, mix.divided))
    return tuple(own.values())


def pair_label(members: Sequence[str]) -> str:
    """`a+b`."""
    return "+".join(members)


def _mixes_of_one(rule: MixRule, tenants: Sequence[str]) -> Iterator[Mix]:
    if rule == "pairs":
        for pair in combinations(tenants, 2):
            yield Mix(pair_label(pair), pair)
    if rule == "all" and len(tenants) > 1:  # all of two are a pair, and have its label
        yield Mix("all" if len(tenants) > 2 else pair_label(tenants), tuple(tenants))
    if isinstance(rule, MixLists):
        yield from _listed(rule)


def _listed(rule: MixLists) -> Iterator[Mix]:
    for tenant, counts in rule.copies.items():
        yield from (Mix(f"{tenant} x{count}", (tenant,) * count) for count in counts)
    for tenant, counts in rule.replicas.items():
        yield from (replica_mix(tenant, count) for count in counts)
    for base, tests in rule.beside.items():
        yield from (Mix(pair_label((test, base)), (test, base)) for test in tests)
    for label, members in rule.groups.items():
        yield Mix(label, tuple(members))
