"""The page: our error beside the baselines', then every question with its targets."""

from collections.abc import Sequence

from validation.result import Measure, Result
from validation.tables import cells, verdict

HEAD = """# How far to trust predictions of interference

Predicted beside measured, on public matrices of pairs and groups. Written by `make validate DATA=DIR`; nothing here is
typed by hand. Errors are |predicted / measured - 1| of the slowdown.

Baselines see the same pairs: the constant (median of the known slowdowns), an effect of the victim plus one of its
neighbour (additive), matrix completion of rank 2 on top (low rank), boosted trees on the solo features of both, and our
prior alone. iGniter's law needs each model's L2 utilisation, power and scheduling delay, which none of these sets has:
it is not in the table. Where the constant is as good as ours, `cotenant predict` says so.
"""
BASELINES = ("constant", "additive", "low rank", "boosted trees", "prior only", "sum of pairs", "product of pairs")


def markdown(results: Sequence[Result]) -> str:
    """The complete page."""
    shown = [name for name in BASELINES if any(name in _first(result).baselines for result in results)]
    parts = [
        HEAD,
        verdict(results),
        "",
        f"| mean error, % | predicted | {' | '.join(shown)} |",
        f"|---|---:|{'---:|' * len(shown)}",
    ]
    for result in results:
        first = _first(result)
        others = " | ".join(f"{first.baselines[name]:.1f}" if name in first.baselines else "" for name in shown)
        parts.append(f"| {result.what} | **{first.value:.1f}** | {others} |")
    for result in results:
        parts += [
            "",
            f"## {result.what[0].upper()}{result.what[1:]}",
            "",
            f"{result.source}. {result.split}",
            "",
            "| measure | value | n | target | reached |",
            "|---|---:|---:|---|---|",
        ]
        for measure in result.measures:
            name, value, _, _, target = cells(measure)
            reached = "" if measure.reached is None else "yes" if measure.reached else "**no**"
            parts.append(f"| {name} | {value} | {measure.n} | {target} | {reached} |")
        notes = (*result.notes, *result.left_out)
        parts += ["", *(f"- {note}" for note in notes)] if notes else []
    return "\n".join(parts).rstrip() + "\n"


def _first(result: Result) -> Measure:
    return result.measures[0]
