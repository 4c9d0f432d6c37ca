"""The answer of a run: who meets its objective alone, what to do with each mix, and what would decide the rest."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cotenant.analyse.decision.option import SharingOption, TenantInOption, objective_of
from cotenant.analyse.sharing.cells import Cell, settings_said
from cotenant.analyse.sharing.summary import Summary, TenantSummary
from cotenant.tenancy.records import APART

# --- the choice between the ways to share a mix, under the same load, setting and device

Verdict = Literal["share", "apart", "open"]
Because = Literal[
    "keeps every objective",
    "does more work",
    "missed alone",
    "missed shared",
    "does less work",
    "gains nothing",
    "starves a tenant",
    "too few requests",
    "too few blocks",
    "no trial passed",
    "disturbed",
]
LEANS: tuple[Because, ...] = ("too few requests", "too few blocks")
"""Reasons for an open verdict that leave evidence to go by."""
SAME_WITHIN = 0.05
AS_GOOD_WITHIN = 0.10
"""An option whose estimate is worse than the best by more than this isn't called as good, however wide its interval."""
AS_MUCH_WITHIN = 0.02
"""A difference in work, headroom or chance below this is not a reason to prefer a way."""
LEAST_EFFORT = ("processes", "threads", "streams", "exclusive", "pinned", "mps", "mps-static", "green", "mig")
"""Effort to set up, from none to an administrator who partitions the GPU."""


@dataclass(frozen=True, slots=True)
class MixChoice:
    """The recommendation for a mix."""

    options: tuple[SharingOption, ...]
    """Best first; ways without a single valid trial come last, unless the verdict is that such a way may be better."""
    verdict: Verdict
    """`open` if the intervals don't tell: see `favours`."""
    because: Because
    study: str = "FILE"
    """What was run, as `cotenant run` takes it."""

    @property
    def favours(self) -> Verdict:
        """The verdict, or what the evidence speaks for where the intervals don't tell; `open` without evidence."""
        if self.verdict != "open" or self.because not in LEANS:
            return self.verdict
        return "share" if self.best.chance >= 0.5 else "apart"

    @property
    def confidence(self) -> float | None:
        """Probability that what is favoured is right; None if the intervals tell, or nothing is favoured."""
        if self.verdict != "open" or self.favours == "open":
            return None
        return max(self.best.chance, 1 - self.best.chance)

    @property
    def best(self) -> SharingOption:
        """The option the verdict refers to."""
        return self.options[0]

    @property
    def rivals(self) -> tuple[SharingOption, ...]:
        """Other options that are nearly as good by their estimate, and that the intervals can't tell from the best."""
        return tuple(
            other
            for other in self.options[1:]
            if self.verdict == "share"
            and other.trusted
            and other.kept == self.best.kept
            and (other.fair or not self.best.fair or other.kept is not None)
            and other.as_good_as(self.best, AS_GOOD_WITHIN)
        )

    @property
    def starving(self) -> tuple[SharingOption, ...]:
        """Ways that do more work than the recommendation, and were not chosen because they starve a tenant."""
        best = self.best
        if self.verdict != "share" or best.kept is not None or not best.fair:
            return ()
        return tuple(
            other for other in self.options[1:] if other.trusted and not other.fair and _size(other) > _size(best)
        )

    @property
    def passed_over(self) -> tuple[SharingOption, ...]:
        """Rivals with a better estimate than the recommended option: by too little to decide."""
        return tuple(other for other in self.rivals if other.as_good_as(self.best, 0.0))


def choose(options: Sequence[SharingOption]) -> MixChoice:
    """Choose between the ways to share a mix. Never recommends a way that misses an objective."""
    trusted = [option for option in options if option.trusted]
    if not trusted and any(
        tenant.alone is not None and tenant.alone.answer == "missed" for tenant in _overloaded_alone(options)
    ):
        return _choice(_ranked(options), "apart", "missed alone")
    if not trusted:
        return _choice(_among(options, options).options, "open", "no trial passed")
    chosen = _among(options, trusted)
    return replace(chosen, options=(*chosen.options, *(option for option in options if option not in chosen.options)))


def _overloaded_alone(options: Sequence[SharingOption]) -> list[TenantInOption]:
    """Tenants that don't keep up even alone, where nothing but that is wrong with the trials."""
    failed = {check for option in options for check in option.mix.failed_checks}
    return [] if failed != {"load_sustained"} else [each for each in options[0].standings if each.overloaded_alone]


def _among(options: Sequence[SharingOption], trusted: Sequence[SharingOption]) -> MixChoice:
    if any(tenant.alone is not None and tenant.alone.answer == "missed" for tenant in trusted[0].standings):
        return _choice(_ranked(trusted), "apart", "missed alone")
    if trusted[0].kept is not None:
        return _by_objectives(options, trusted)
    return _by_work(options, trusted)


def _by_objectives(options: Sequence[SharingOption], trusted: Sequence[SharingOption]) -> MixChoice:
    kept = [option for option in trusted if option.kept == "kept"]
    if kept:
        rest = [option for option in trusted if option.kept != "kept"]
        return _choice([*_ranked(kept), *_ranked(rest)], "share", "keeps every objective")
    undecided = [option for option in trusted if option.kept == "open"]
    if undecided:
        likeliest = max(option.chance for option in undecided) - AS_MUCH_WITHIN
        likely = [option for option in undecided if option.chance >= likeliest]
        unlikely = [option for option in undecided if option not in likely]
        rest = [option for option in trusted if option.kept != "open"]
        return _choice([*_ranked(likely), *_ranked(unlikely), *_ranked(rest)], "open", "too few requests")
    missed = sorted(trusted, key=lambda option: -option.headroom)
    hidden = [option for option in options if not option.trusted and option.kept != "missed"]
    if hidden:
        return _choice([*_ranked(hidden), *missed], "open", "no trial passed")
    return _choice(missed, "apart", "missed shared")


def _by_work(options: Sequence[SharingOption], trusted: Sequence[SharingOption]) -> MixChoice:
    fair = [option for option in trusted if option.fair]
    ranked = [*_ranked(fair), *_ranked([option for option in trusted if not option.fair])]
    best = ranked[0]
    hidden = [option for option in options if not option.trusted and _size(option) > _size(best)]
    if best.disturbed:
        return _choice(ranked, "open", "disturbed")
    gain = best.gain(SAME_WITHIN)
    if gain == "more":
        return _choice(ranked, "share", "does more work") if best.fair else _choice(ranked, "apart", "starves a tenant")
    if hidden:
        return _choice([*_ranked(hidden), *ranked], "open", "no trial passed")
    if gain in {"less", "same"}:
        return _choice(ranked, "apart", "does less work" if gain == "less" else "gains nothing")
    return _choice(ranked, "open", "too few blocks")


def _choice(options: Sequence[SharingOption], verdict: Verdict, because: Because) -> MixChoice:
    return MixChoice(tuple(options), verdict, because)


def _ranked(options: Sequence[SharingOption]) -> list[SharingOption]:
    """Most work first; ties go to the most headroom below the objectives, then to the easiest setup."""
    left, ranked = list(options), []
    while left:
        most = max(map(_size, left))
        as_much = [option for option in left if _size(option) >= most * (1 - AS_MUCH_WITHIN)]
        room = max(option.headroom for option in as_much)
        as_roomy = [option for option in as_much if option.headroom >= room - AS_MUCH_WITHIN]
        best = min(as_roomy, key=lambda option: (effort(option), -_size(option)))
        ranked.append(best)
        left.remove(best)
    return ranked


def effort(option: SharingOption) -> int:
    """What it takes to set up, from none upwards."""
    mode = option.cell.sharing.partition("[")[0]
    return LEAST_EFFORT.index(mode) if mode in LEAST_EFFORT else len(LEAST_EFFORT)


def _size(option: SharingOption) -> float:
    return option.work.est or 0.0


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """The recommendations drawn from a summary."""

    missed_alone: tuple[TenantInOption, ...]
    """Tenants that miss their objective with the device to themselves."""
    choices: tuple[MixChoice, ...]
    """One per mix and condition: most tenants first, then those that may share, then most work."""

    @property
    def main(self) -> MixChoice | None:
        """The choice the run was about: the mix with the most tenants."""
        return self.choices[0] if self.choices else None

    @property
    def best_shared(self) -> MixChoice | None:
        """The mix with the most tenants that may share."""
        return next((choice for choice in self.choices if choice.favours == "share"), None)

    @property
    def undecided(self) -> tuple[MixChoice, ...]:
        """Mixes that further measurements would settle."""
        return tuple(choice for choice in self.choices if choice.verdict == "open")

    def __str__(self) -> str:
        from cotenant.analyse.decision.wording import headline

        return "\n".join(headline(self))

    def __repr__(self) -> str:
        return f"<cotenant.types.Answer: {str(self).partition(chr(10))[0]}>"


def decide(summary: Summary, study: str = "FILE") -> Answer:
    """Decide on every mix of a summary.

    Args:
        summary: What was measured or simulated.
        study: What was run, as `cotenant run` takes it: for the commands that settle open questions.
    """
    alone = {(_conditions(tenant.cell), tenant.of): tenant for tenant in summary.tenants if tenant.cell.solo}
    members: dict[Cell, list[TenantSummary]] = {}
    for tenant in summary.tenants:
        members.setdefault(tenant.cell, []).append(tenant)
    groups: dict[Cell, list[SharingOption]] = {}
    for mix in summary.mixes:
        if not mix.cell.solo and mix.cell.sharing != APART:  # Tenants on separate devices share none.
            standings = tuple(_standing(tenant, alone) for tenant in members[mix.cell])
            groups.setdefault(replace(mix.cell, sharing=""), []).append(SharingOption(mix, standings))
    choices = sorted((replace(choose(options), study=study) for options in groups.values()), key=_importance)
    return Answer(tuple(_missed(tuple(alone.values()))), tuple(choices))


def _standing(tenant: TenantSummary, alone: Mapping[tuple[Cell, str], TenantSummary]) -> TenantInOption:
    solo = alone.get((_conditions(tenant.cell), tenant.of))
    return TenantInOption(
        tenant=tenant.tenant,
        of=tenant.of,
        slowdown=tenant.slowdown,
        alone=None if solo is None else objective_of(solo),
        shared=objective_of(tenant),
        rate_rps=tenant.rate_rps,
        arrived_rps=tenant.arrived_rps,
        arrived_alone_rps=None if solo is None else solo.arrived_rps,
        measured_s=_seconds(tenant),
        measured_alone_s=0.0 if solo is None else _seconds(solo),
        served_rps=tenant.throughput_rps.est,
        served_alone_rps=None if solo is None else solo.throughput_rps.est,
        software=tenant.software,
        generates=tenant.tokens is not None,
    )


def _seconds(tenant: TenantSummary) -> float:
    return tenant.requests / tenant.throughput_rps.est if tenant.throughput_rps.est else 0.0


def _missed(solos: Sequence[TenantSummary]) -> Iterable[TenantInOption]:
    varying = [name for name in ("device", "load", "settings") if len({getattr(solo.cell, name) for solo in solos}) > 1]
    for solo in solos:
        objective = objective_of(solo)
        if objective is not None and objective.answer == "missed":
            under = ", ".join(_said(solo.cell, name) for name in varying)
            yield TenantInOption(solo.tenant, solo.of, solo.slowdown, objective, None, under)


def _said(cell: Cell, name: str) -> str:
    return settings_said(cell.settings) if name == "settings" else str(getattr(cell, name))


def _conditions(cell: Cell) -> Cell:
    return replace(cell, mix="", sharing="", with_neighbours=False)


def _importance(choice: MixChoice) -> tuple[int, float, float]:
    order = {"share": 0, "open": 1, "apart": 2}
    sure = choice.confidence is None
    return -len(choice.best.standings), order[choice.favours] + (not sure) / 2, -(choice.best.work.est or 0.0)
