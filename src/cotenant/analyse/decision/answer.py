"""The answer of a run: who meets its objective alone, what to do with each mix, and what would decide the rest."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cotenant.analyse.decision.choice import Choice, choose
from cotenant.analyse.decision.objective import objective_of
from cotenant.analyse.decision.option import Option, TenantInOption
from cotenant.analyse.sharing.cells import Cell, settings_said
from cotenant.analyse.sharing.summary import Summary, TenantSummary
from cotenant.tenancy.records import APART


@dataclass(frozen=True, slots=True)
class Answer:
    """The recommendations drawn from a summary."""

    missed_alone: tuple[TenantInOption, ...]
    """Tenants that miss their objective with the device to themselves."""
    choices: tuple[Choice, ...]
    """One per mix and condition: most tenants first, then those that may share, then most work."""

    @property
    def main(self) -> Choice | None:
        """The choice the run was about: the mix with the most tenants."""
        return self.choices[0] if self.choices else None

    @property
    def best_shared(self) -> Choice | None:
        """The mix with the most tenants that may share."""
        return next((one for one in self.choices if one.verdict == "share"), None)

    @property
    def undecided(self) -> tuple[Choice, ...]:
        """Mixes that further measurements would decide."""
        return tuple(one for one in self.choices if one.verdict == "open")


def decide(summary: Summary) -> Answer:
    """Decide on every mix of a summary."""
    alone = {(_conditions(one.cell), one.of): one for one in summary.tenants if one.cell.solo}
    members: dict[Cell, list[TenantSummary]] = {}
    for tenant in summary.tenants:
        members.setdefault(tenant.cell, []).append(tenant)
    groups: dict[Cell, list[Option]] = {}
    for mix in summary.mixes:
        if not mix.cell.solo and mix.cell.sharing != APART:  # Tenants on separate devices share none.
            standings = tuple(_standing(one, alone) for one in members[mix.cell])
            groups.setdefault(replace(mix.cell, sharing=""), []).append(Option(mix, standings))
    choices = sorted((choose(options) for options in groups.values()), key=_importance)
    return Answer(tuple(_missed(tuple(alone.values()))), tuple(choices))


def _standing(tenant: TenantSummary, alone: Mapping[tuple[Cell, str], TenantSummary]) -> TenantInOption:
    solo = alone.get((_conditions(tenant.cell), tenant.of))
    return TenantInOption(
        tenant=tenant.tenant,
        of=tenant.of,
        slowdown=tenant.slowdown,
        alone=None if solo is None else objective_of(solo),
        shared=objective_of(tenant),
        rate_given=tenant.rate_rps is not None,
    )


def _missed(solos: Sequence[TenantSummary]) -> Iterable[TenantInOption]:
    varying = [name for name in ("device", "load", "settings") if len({getattr(one.cell, name) for one in solos}) > 1]
    for solo in solos:
        objective = objective_of(solo)
        if objective is not None and objective.answer == "missed":
            under = ", ".join(_said(solo.cell, name) for name in varying)
            yield TenantInOption(solo.tenant, solo.of, solo.slowdown, objective, None, under)


def _said(cell: Cell, name: str) -> str:
    return settings_said(cell.settings) if name == "settings" else str(getattr(cell, name))


def _conditions(cell: Cell) -> Cell:
    return replace(cell, mix="", sharing="", with_neighbours=False)


def _importance(choice: Choice) -> tuple[int, int, float]:
    order = {"share": 0, "open": 1, "apart": 2}
    return -len(choice.best.standings), order[choice.verdict], -(choice.best.work.est or 0.0)
