"""A study without some of its tenants, and without the mixes that need them."""

from collections.abc import Collection

from cotenant.study.mixes import MixLists
from cotenant.study.model import Study


def without(study: Study, names: Collection[str]) -> Study:
    """The same study for a device on which these tenants don't fit."""
    mixes = tuple(_kept(rule, names) if isinstance(rule, MixLists) else rule for rule in study.mixes)
    tenants = {name: entry for name, entry in study.tenants.items() if name not in names}
    return study.model_copy(update={"tenants": tenants, "mixes": mixes}).placed(study.places)


def _kept(rule: MixLists, names: Collection[str]) -> MixLists:
    beside = {
        base: tuple(one for one in others if one not in names)
        for base, others in rule.beside.items()
        if base not in names
    }
    return MixLists(
        copies={name: counts for name, counts in rule.copies.items() if name not in names},
        beside={base: others for base, others in beside.items() if others},
        groups={name: group for name, group in rule.groups.items() if not set(group) & set(names)},
    )
