"""Scorers: how well features separate the classes."""

from collections.abc import Mapping

from cotenant.errors import DataError
from cotenant.ranking.protocol import Scorer
from cotenant.ranking.scorers.classifiers import Linear, NearestNeighbours
from cotenant.ranking.scorers.closed_forms import HScore, Leep, LogMe, Nce, TransRate
from cotenant.text import did_you_mean

__all__ = ["SCORERS", "find_scorer"]

SCORERS: Mapping[str, Scorer] = {
    scorer.name: scorer for scorer in (Linear(), NearestNeighbours(), LogMe(), HScore(), TransRate(), Leep(), Nce())
}
"""`leep` and `nce` take the logits of a model's original head instead of features."""


def find_scorer(name: str) -> Scorer:
    """The scorer with that name."""
    if name in SCORERS:
        return SCORERS[name]
    hint = did_you_mean(name, SCORERS) or f"choose from {', '.join(SCORERS)}"
    raise DataError(f"there is no scorer {name!r}", hint=hint)
