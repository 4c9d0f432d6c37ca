"""Which tenants run at the same time: the rules of the file, and the mixes they stand for."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, PlainValidator, Tag, WithJsonSchema

from cotenant.study.values import Copies, GroupName, Name
from cotenant.study.words import did_you_mean, expected
from cotenant.tenancy.nouns import Frozen

# Tags of unions appear in pydantic's error paths. No key of a file can contain a NUL, so the tags are unambiguous.
WORD, LISTS = "\0word", "\0lists"
WORDS = ("solo", "pairs", "all")


@dataclass(frozen=True, slots=True)
class Mix:
    """Tenants of the study that run together, by name, in order; a name may repeat."""

    label: str
    members: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The members' names within the mix: copies of one tenant are `a#1`, `a#2`."""
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
        description="Copies of one tenant beside each other: how many, for each tenant.",
        examples=[{"distilgpt2": [2, 3, 4, 10]}],
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
        lists = "{copies: {tenant: [2, 3]}}, {beside: {tenant: [tenant]}} or {groups: {name: [tenant, tenant]}}"
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
        for tenant, counts in rule.copies.items():
            for count in counts:
                yield Mix(f"{tenant} x{count}", (tenant,) * count)
        for base, tests in rule.beside.items():
            for test in tests:
                yield Mix(pair_label((test, base)), (test, base))
        for label, members in rule.groups.items():
            yield Mix(label, tuple(members))
