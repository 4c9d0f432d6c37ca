"""Scores of features on disk; each is computed once per session."""

from cotenant.ranking.bench import SearchBench
from cotenant.ranking.folder import SearchFolder
from cotenant.ranking.protocol import ItemScorer, Scorer
from cotenant.ranking.ranking import Scored, score


class Judge:
    """Scores the first items of a model."""

    def __init__(self, bench: SearchBench, scorer: Scorer, folder: SearchFolder, seed: int) -> None:
        self._bench, self._scorer, self._folder, self._seed = bench, scorer, folder, seed
        self._known: dict[tuple[str, int, bool], Scored] = {}

    def score(self, leaf: str, items: int, *, with_interval: bool = False) -> Scored:
        """The score of a model's features on the first items."""
        key = (leaf, items, with_interval and not isinstance(self._scorer, ItemScorer))
        if key not in self._known:
            bench = self._bench
            features = self._folder.features(leaf, items)
            with bench.watch.stage("score"):
                self._known[key] = score(
                    self._scorer,
                    features,
                    bench.data.labels[bench.order[:items]],
                    classes=len(bench.data.classes),
                    seed=self._seed,
                    with_halves=with_interval,
                )
        return self._known[key]
