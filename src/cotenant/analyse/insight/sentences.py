"""A pattern in a sentence or two."""

from collections.abc import Collection, Iterator, Sequence

from cotenant.analyse.insight.groups import Contrast
from cotenant.analyse.insight.pattern import LEVEL, Link, Pattern
from cotenant.text import percent

MOST_CONTRASTS = 2
USEFUL = 0.3
"""Smallest share of variance explained in held-out mixes for a model to be named."""


def pattern_sentences(pattern: Pattern) -> Iterator[str]:
    """What correlates with slowdown, how well it predicts held-out mixes, and what does not correlate."""
    shown = [link for link in pattern.links if link.p <= LEVEL]
    evidence = f"{pattern.tenants} tenants in {pattern.mixes} mixes"
    if not shown:
        yield f"Under {pattern.sharing}, no tenant property clearly correlates with slowdown ({evidence})."
        return
    first = shown[0]
    others = [link for link in pattern.links if link.p > LEVEL and abs(link.r) < abs(first.r) / 2]
    apart = f", not on {others[-1].property} ({_r(others[-1])})" if others else ""
    yield (
        f"Under {pattern.sharing}, a tenant's slowdown depends on {first.property} ({_with_ends(first)}, "
        f"{'more' if first.r > 0 else 'less'} slowdown the more of it){apart} ({evidence})."
    )
    if pattern.left_out_r2 >= USEFUL:
        named = " and ".join(pattern.model)
        yield (
            f"Under {pattern.sharing}, {named} predict{'s' if len(pattern.model) == 1 else ''} "
            f"{percent(pattern.left_out_r2)} of how slowdowns differ in held-out mixes."
        )
    else:
        yield (
            f"Under {pattern.sharing}, no one or two properties predict held-out mixes well "
            f"({percent(max(0.0, pattern.left_out_r2))} at best)."
        )


def contrast_sentences(found: Sequence[Contrast], sharings: Collection[str]) -> Iterator[str]:
    """Groups that differ beyond chance under these ways to share, and the ways under which none do."""
    for sharing in sharings:
        mine = [one for one in found if one.sharing == sharing]
        shown = [one for one in mine if one.shown]
        for one in shown[:MOST_CONTRASTS]:
            worse, better = (one.one, one.other) if one.ratio > 1 else (one.other, one.one)
            ratio, lo, hi = (one.ratio, one.lo, one.hi) if one.ratio > 1 else (1 / one.ratio, 1 / one.hi, 1 / one.lo)
            yield (
                f"Under {sharing}, pairs of {worse.name} ({worse.mixes}) slow each other down {ratio:.2f}x [{lo:.2f}, "
                f"{hi:.2f}] as much as pairs of {better.name} ({better.mixes}): {worse.slowdown:.2f}x against "
                f"{better.slowdown:.2f}x (p = {max(one.p, 0.001):.2g} after Holm's correction)."
            )
        if mine and not shown:
            names = ", ".join(dict.fromkeys(name for one in mine for name in (one.one.name, one.other.name)))
            yield f"Under {sharing}, no group differs from another beyond chance, after Holm's correction: {names}."


def _r(link: Link) -> str:
    return f"r = {link.r:.2f}"


def _with_ends(link: Link) -> str:
    return f"r = {link.r:.2f} [{link.lo:.2f}, {link.hi:.2f}]"
