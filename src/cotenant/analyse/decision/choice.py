"""The choice between the ways to share one mix, under one load and setting of one device."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cotenant.analyse.decision.option import Option

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
SAME_WITHIN = 0.05
AS_MUCH_WITHIN = 0.02
"""A difference in work or headroom below this is not a reason to prefer one way to another."""
LEAST_EFFORT = ("processes", "threads", "streams", "exclusive", "pinned", "mps", "mps-static", "green", "mig")
"""Effort to set up, from none to an administrator who partitions the GPU."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The recommendation for one mix."""

    options: tuple[Option, ...]
    """Best first; options without a single fully valid trial come last."""
    verdict: Verdict
    because: Because

    @property
    def best(self) -> Option:
        """The option the verdict refers to."""
        return self.options[0]

    @property
    def rivals(self) -> tuple[Option, ...]:
        """Other options that the intervals can't distinguish from the best."""
        least = self.best.work.lo
        return tuple(
            other
            for other in self.options[1:]
            if self.verdict == "share"
            and other.trusted
            and other.kept == self.best.kept
            and least is not None
            and other.work.hi is not None
            and other.work.hi >= least
        )


def choose(options: Sequence[Option]) -> Choice:
    """Choose between the ways to share one mix. Never recommends one that misses an objective."""
    trusted = [one for one in options if one.trusted]
    if not trusted:
        return _choice(_among(options, options).options, "open", "no trial passed")
    chosen = _among(options, trusted)
    return replace(chosen, options=(*chosen.options, *(one for one in options if one not in chosen.options)))


def _among(options: Sequence[Option], trusted: Sequence[Option]) -> Choice:
    if any(one.alone is not None and one.alone.answer == "missed" for one in trusted[0].standings):
        return _choice(_ranked(trusted), "apart", "missed alone")
    if trusted[0].kept is not None:
        return _by_objectives(options, trusted)
    return _by_work(options, trusted)


def _by_objectives(options: Sequence[Option], trusted: Sequence[Option]) -> Choice:
    kept = [one for one in trusted if one.kept == "kept"]
    if kept:
        rest = [one for one in trusted if one.kept != "kept"]
        return _choice([*_ranked(kept), *_ranked(rest)], "share", "keeps every objective")
    undecided = [one for one in trusted if one.kept == "open"]
    if undecided:
        rest = [one for one in trusted if one.kept != "open"]
        return _choice([*_ranked(undecided), *_ranked(rest)], "open", "too few requests")
    missed = sorted(trusted, key=lambda one: -one.headroom)
    hidden = [one for one in options if not one.trusted and one.kept != "missed"]
    if hidden:
        return _choice([*_ranked(hidden), *missed], "open", "no trial passed")
    return _choice(missed, "apart", "missed shared")


def _by_work(options: Sequence[Option], trusted: Sequence[Option]) -> Choice:
    fair = [one for one in trusted if one.fair]
    ranked = [*_ranked(fair), *_ranked([one for one in trusted if not one.fair])]
    best = ranked[0]
    hidden = any(_size(one) > _size(best) for one in options if not one.trusted)
    if best.disturbed:
        return _choice(ranked, "open", "disturbed")
    gain = best.gain(SAME_WITHIN)
    if gain == "more":
        return _choice(ranked, "share", "does more work") if best.fair else _choice(ranked, "apart", "starves a tenant")
    if hidden:
        return _choice(ranked, "open", "no trial passed")
    if gain in {"less", "same"}:
        return _choice(ranked, "apart", "does less work" if gain == "less" else "gains nothing")
    return _choice(ranked, "open", "too few blocks")


def _choice(options: Sequence[Option], verdict: Verdict, because: Because) -> Choice:
    return Choice(tuple(options), verdict, because)


def _ranked(options: Sequence[Option]) -> list[Option]:
    """Most work first; ties go to the most headroom below the objectives, then to the easiest setup."""
    left, ranked = list(options), []
    while left:
        most = max(map(_size, left))
        as_much = [one for one in left if _size(one) >= most * (1 - AS_MUCH_WITHIN)]
        room = max(one.headroom for one in as_much)
        as_roomy = [one for one in as_much if one.headroom >= room - AS_MUCH_WITHIN]
        best = min(as_roomy, key=lambda one: (_effort(one), -_size(one)))
        ranked.append(best)
        left.remove(best)
    return ranked


def _effort(option: Option) -> int:
    mode = option.cell.sharing.partition("[")[0]
    return LEAST_EFFORT.index(mode) if mode in LEAST_EFFORT else len(LEAST_EFFORT)


def _size(option: Option) -> float:
    return option.work.est or 0.0
