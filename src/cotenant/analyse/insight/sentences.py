"""A pattern in a sentence or two."""

from collections.abc import Iterator

from cotenant.analyse.insight.pattern import LEVEL, Link, Pattern

USEFUL = 0.3
"""Share of the variance in mixes left out from which a model is worth naming."""


def pattern_sentences(pattern: Pattern) -> Iterator[str]:
    """What goes with slowdown, how well it predicts mixes left out, and what does not."""
    shown = [link for link in pattern.links if link.p <= LEVEL]
    evidence = f"{pattern.tenants} tenants in {pattern.mixes} mixes"
    if not shown:
        yield f"Under {pattern.sharing}, no property of the tenants goes with their slowdown beyond doubt ({evidence})."
        return
    first = shown[0]
    others = [link for link in pattern.links if link.p > LEVEL and abs(link.r) < abs(first.r) / 2]
    apart = f", not by {others[-1].property} ({_r(others[-1])})" if others else ""
    yield (
        f"Under {pattern.sharing}, how much a tenant suffers is told by {first.property} ({_with_ends(first)}, "
        f"{'more' if first.r > 0 else 'less'} suffering the more of it){apart} ({evidence})."
    )
    if pattern.left_out_r2 >= USEFUL:
        named = " and ".join(pattern.model)
        yield (
            f"Under {pattern.sharing}, {named} predict{'s' if len(pattern.model) == 1 else ''} "
            f"{pattern.left_out_r2:.0%} of how slowdowns differ in mixes that were left out."
        )
    else:
        yield (
            f"Under {pattern.sharing}, no one or two properties predict mixes that were left out well "
            f"({max(0.0, pattern.left_out_r2):.0%} at best)."
        )


def _r(link: Link) -> str:
    return f"r = {link.r:.2f}"


def _with_ends(link: Link) -> str:
    return f"r = {link.r:.2f} [{link.lo:.2f}, {link.hi:.2f}]"
