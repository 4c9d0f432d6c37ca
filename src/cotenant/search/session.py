"""A search from beginning to end: rounds of extraction and scoring, then the ranking and its baselines."""

import resource
import time
from collections.abc import Sequence
from typing import Any

import psutil

from cotenant.search.baselines import raw_features, raw_name
from cotenant.search.conditions import require_same_inputs, require_space
from cotenant.search.costs import Predicted
from cotenant.search.events import Listener, Planned, RoundEnded, Working
from cotenant.search.extracting import Extraction
from cotenant.search.folder import SearchFolder
from cotenant.search.halving import Round
from cotenant.search.outcome import Baseline, Outcome, Ranked, Shared, Timed
from cotenant.search.preparation import path_for, prepare
from cotenant.search.ranking import HALVES, Scored, ranks, score, tied
from cotenant.search.settings import Settings
from cotenant.search.tree import Node, Path, grow, steps_with_sharing, steps_without_sharing
from cotenant.workloads.search.protocol import Features

RAW = "raw-input"
TOLD_EVERY_S = 0.3


def search(settings: Settings, folder: SearchFolder, listener: Listener) -> Outcome:
    """Carry a search out in its folder; what is there already is not computed again."""
    with folder.held():
        session = _Session(settings, folder, listener)
        outcome = session.run()
        folder.note(state="done")
        return outcome


class _Session:
    def __init__(self, settings: Settings, folder: SearchFolder, listener: Listener) -> None:
        self._settings, self._folder, self._listener = settings, folder, listener
        self._began = time.monotonic()
        self._before_s = float(folder.known.get("spent_s", 0.0))
        import transformers  # noqa: F401 - code is not what the memory is meant for: it is there before the count begins

        self._memory_before = psutil.Process().memory_info().rss
        self._stages_before: dict[str, float] = dict(folder.known.get("stages_s", {}))
        self._told = 0.0
        self._leader: str | None = None
        self._best: Scored | None = None
        self._parts = 0

    def run(self) -> Outcome:
        settings = self._settings
        ready = prepare(settings, lambda doing, share: self._listener(Working(doing, share * 0.01, None)))
        self._ready = ready
        require_same_inputs(self._folder, ready)
        plan, notes = self._plan()
        self._predicted_s = self._whole(ready.predict(plan), plan)
        require_space(self._folder, ready, plan)
        paths = [ready.paths[number] for number in ready.ranked]
        alone = steps_without_sharing(paths)
        together = steps_with_sharing(grow(paths)) if paths else 0
        self._listener(
            Planned(len(paths), plan[-1].items, len(plan), self._predicted_s, alone, together, (*ready.notes, *notes))
        )
        self._planned_at, self._done_s = time.monotonic(), 0.0
        rounds = self._rounds(plan) if paths else []
        if len(rounds) < len(plan) and paths:
            notes = (*notes, f"The time was used up after {len(rounds)} of {len(plan)} rounds.")
        items = rounds[-1]["items"] if rounds else plan[-1].items
        ranking = self._ranking(rounds)
        baselines = self._baselines(ranking, items)
        outcome = Outcome(
            folder=self._folder.path,
            data=settings.data,
            kind=ready.bench.data.kind,
            classes=len(ready.bench.data.classes),
            items=items,
            items_there=len(ready.bench.data),
            skipped=int(getattr(ready.bench.data, "skipped", 0)),
            scorer=settings.scorer,
            about_scorer=str(getattr(ready.scorer, "about", "")),
            exact=settings.exact,
            rounds=tuple(rounds),
            ranking=ranking,
            timed=tuple(Timed(self._name(one), self._ms(one)) for one in ready.timed),
            baselines=baselines,
            shared=self._shared(grow(paths)) if paths else (),
            steps_alone=alone,
            steps_shared=together,
            stages_s=self._stages(),
            predicted_s=float(self._folder.known.get("predicted_s", self._predicted_s)),
            actual_s=self._before_s + time.monotonic() - self._planned_at,
            memory_bytes=settings.memory_bytes,
            peak_bytes=max(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - self._memory_before),
            parts=self._parts,
            notes=(*ready.notes, *notes),
            top=settings.top,
        )
        self._save()
        return outcome

    def _plan(self) -> tuple[tuple[Round, ...], tuple[str, ...]]:
        """The rounds, with fewer items if the time would not suffice for all."""
        ready, budget = self._ready, self._settings.budget_s
        items = int(self._folder.known.get("items", len(ready.bench.data)))
        plan = ready.plan(items, exact=self._settings.exact)
        if budget is None or not ready.ranked:
            return plan, ()
        batch, least = ready.bench.batch, ready.least_items
        while (predicted := self._whole(ready.predict(plan), plan)) > 0.9 * budget and items > least:
            fewer = int(items * max(0.5, 0.85 * budget / predicted)) // batch * batch
            items = max(least, min(items - batch, fewer))
            plan = ready.plan(items, exact=self._settings.exact)
        self._folder.note(items=items)
        if items == len(ready.bench.data):
            return plan, ()
        return plan, (
            f"{items:,} of {len(ready.bench.data):,} items were used, since all would take longer than asked.",
        )

    def _whole(self, predicted: Predicted, plan: Sequence[Round]) -> float:
        """With baselines and intervals, which come after the rounds."""
        ready, items = self._ready, plan[-1].items
        if not ready.ranked:
            return ready.score_s(items) * (1 + HALVES / 2)
        random = sum(step.seconds for step in ready.paths[ready.ranked[0]].steps) * items
        lines = min(self._settings.top, plan[-1].models) + 2
        return predicted.seconds + random + lines * ready.score_s(items) * HALVES / 2

    def _rounds(self, plan: Sequence[Round]) -> list[dict[str, Any]]:
        """Extract and score, round by round; rounds that are over according to the folder are taken from there."""
        ready, over = self._ready, list(self._folder.known.get("rounds", []))
        self._folder.note(predicted_s=self._folder.known.get("predicted_s", self._predicted_s))
        alive = list(ready.ranked)
        for number, step in enumerate(plan, 1):
            if number > len(over):
                if number > 1 and self._too_late(alive, over[-1]["items"], step.items):
                    break
                self._extend([ready.paths[one] for one in alive], step.items, f"round {number} of {len(plan)}")
                over.append(self._scored(alive, step))
                self._save(rounds=over)
            kept = set(over[number - 1]["kept"])
            best = over[number - 1]["kept"][0]
            self._leader = best
            self._listener(
                RoundEnded(
                    number, len(plan), over[number - 1]["items"], len(alive), len(kept), best,
                    over[number - 1]["scores"][best],
                )
            )  # fmt: skip
            alive = [one for one in alive if self._name(one) in kept]
        return over

    def _scored(self, alive: Sequence[int], step: Round) -> dict[str, Any]:
        scores = {}
        for number, one in enumerate(alive):
            self._tell(f"scoring {self._name(one)} ({number + 1} of {len(alive)})")
            scores[self._name(one)] = self._score(self._ready.paths[one], step.items).score
            self._done_s += self._ready.score_s(step.items)
        order = sorted(scores, key=lambda name: -scores[name])
        return {"items": step.items, "scores": scores, "kept": order[: step.keep]}

    def _extend(self, paths: Sequence[Path], items: int, doing: str) -> None:
        """See to it that the first so many items' features of these candidates are there."""
        folder, ready = self._folder, self._ready
        leaf_of = {path.candidate: path.leaf for path in paths}

        def advance(node: Node, passed: int) -> None:
            self._done_s += sum(step.seconds for step in node.steps) * passed
            self._tell(f"{doing}: {items:,} items, {len(paths)} model{'s' * (len(paths) != 1)}")

        while True:
            ends = {path.leaf: folder.have(path.leaf) for path in paths}
            first = min(ends.values())
            if first >= items:
                return
            some = [path for path in paths if ends[path.leaf] == first]
            further = min((end for end in ends.values() if end > first), default=items)
            last = min(items, further, first + ready.part_items(some, items - first))
            self._parts += 1

            def done(node: Node, features: Features, first: int = first) -> None:
                with ready.bench.watch.stage("store"):
                    folder.commit(leaf_of[node.candidates[0]], first, features)

            extraction = Extraction(ready.bench, ready.shelf, done, advance)
            extraction.run(grow(some), ready.bench.batches(first, last))
            self._save()

    def _score(self, path: Path, items: int, *, with_halves: bool = False) -> Scored:
        return self._judged(self._folder.features(path.leaf, items), with_halves=with_halves)

    def _judged(self, features: Features, *, with_halves: bool) -> Scored:
        bench, settings = self._ready.bench, self._settings
        labels = bench.data.labels[bench.order[: len(features)]]
        with bench.watch.stage("score"):
            return score(
                self._ready.scorer,
                features,
                labels,
                classes=len(bench.data.classes),
                seed=settings.seed,
                with_halves=with_halves,
            )

    def _ranking(self, rounds: Sequence[dict[str, Any]]) -> tuple[Ranked, ...]:
        """Those that saw the most items first; within a round by score."""
        by_name = {self._name(one): one for one in self._ready.ranked}
        order: list[tuple[str, int]] = []
        for number in range(len(rounds), 0, -1):
            step = rounds[number - 1]
            listed = {name for name, _ in order}
            names = sorted(step["scores"], key=lambda name: -step["scores"][name])
            order += [(name, number) for name in names if name not in listed]
        scored = []
        for place, (name, number) in enumerate(order):
            step, path = rounds[number - 1], self._ready.paths[by_name[name]]
            if place < self._settings.top:
                self._tell(f"how sure is the score of {name}")
                scored.append(self._score(path, step["items"], with_halves=True))
            else:
                scored.append(Scored(step["scores"][name], (), step["items"]))
        self._best = scored[0] if scored else None
        places = ranks(scored)
        return tuple(
            Ranked(
                rank=places[at],
                name=name,
                estimate=scored[at].estimate,
                tied=places.count(places[at]) > 1,
                left_in_round=None if number == len(rounds) else number,
                ms_per_item=self._ms(by_name[name]),
                weights=str(self._ready.bench.candidates[by_name[name]].weights),
            )
            for at, (name, number) in enumerate(order)
        )

    def _baselines(self, ranking: Sequence[Ranked], items: int) -> tuple[Baseline, ...]:
        """Raw input, and random weights in every architecture that saw all items."""
        ready = self._ready
        bench = ready.bench
        by_name = {self._name(one): one for one in (*ready.ranked, *ready.timed)}
        names = [line.name for line in ranking if line.left_in_round is None] or list(by_name)[:1]
        finalists = {bench.candidates[by_name[name]].architecture for name in names}
        found = []
        for one in ready.baselines:
            if bench.candidates[one].architecture not in finalists:
                continue
            path = path_for(bench, one, ready.shelf.read(one), {})
            self._extend([path], items, f"baseline: {self._name(one)}")
            found.append(self._baseline(self._name(one), self._score(path, items, with_halves=True)))
        sample = by_name[names[0]]
        while (first := self._folder.have(RAW)) < items:
            self._tell(f"baseline: {raw_name(bench)}")
            last = min(items, first + 32 * bench.batch)
            with bench.watch.stage("load_data"):
                features = raw_features(bench, bench.order[first:last], sample)
            self._folder.commit(RAW, first, features)
        raw = self._judged(self._folder.features(RAW, items), with_halves=True)
        return (*found, self._baseline(raw_name(bench), raw))

    def _baseline(self, name: str, scored: Scored) -> Baseline:
        best = self._best
        return Baseline(
            name, scored.estimate, best is not None and best.score > scored.score and not tied(best, scored)
        )

    def _shared(self, root: Node) -> tuple[Shared, ...]:
        return tuple(
            Shared(tuple(map(self._name, node.through)), tuple(step.label for step in node.steps))
            for node in root.walk()
            if len(node.through) > 1 and node.steps
        )

    def _too_late(self, alive: Sequence[int], shown: int, items: int) -> bool:
        budget = self._settings.budget_s
        if budget is None:
            return False
        ready = self._ready
        root = grow([ready.paths[one] for one in alive])
        takes = root.seconds * (items - shown) + ready.score_s(items) * len(alive)
        return self._before_s + time.monotonic() - self._began + takes > budget

    def _tell(self, doing: str) -> None:
        now = time.monotonic()
        if now - self._told < TOLD_EVERY_S:
            return
        self._told = now
        share = min(1.0, self._done_s / max(self._predicted_s, 1e-9))
        spent = now - self._planned_at
        whole = spent / share if share > 0.1 else max(self._predicted_s, spent)
        self._listener(Working(doing, share, whole - spent, self._leader))

    def _save(self, **more: Any) -> None:
        self._folder.note(spent_s=self._before_s + time.monotonic() - self._planned_at, stages_s=self._stages(), **more)

    def _stages(self) -> dict[str, float]:
        """Seconds by stage, with those of the sessions before."""
        now = self._ready.bench.watch.seconds
        return {
            stage: self._stages_before.get(stage, 0.0) + now.get(stage, 0.0)
            for stage in dict.fromkeys((*self._stages_before, *now))
        }

    def _name(self, candidate: int) -> str:
        return self._ready.bench.candidates[candidate].name

    def _ms(self, candidate: int) -> float:
        return 1e3 * sum(step.seconds for step in self._ready.paths[candidate].steps)
