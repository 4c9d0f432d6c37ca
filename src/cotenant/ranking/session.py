"""A complete search: rounds of extraction and scoring, then the ranking and its baselines."""

import logging
import resource
import shutil
import time
from collections.abc import Sequence
from typing import Any

import psutil

from cotenant.errors import CotenantError
from cotenant.ranking.bench import SIDE, SearchBench, raw_features, raw_name
from cotenant.ranking.candidates import resolve
from cotenant.ranking.costs import Round
from cotenant.ranking.folder import SearchFolder, resume_command
from cotenant.ranking.outcome import (
    Baseline,
    Listener,
    PlannedSearch,
    Ranked,
    RoundEnded,
    SearchOutcome,
    Shared,
    Timed,
    Working,
)
from cotenant.ranking.planning import Allowance, Later, afterwards, left_over, plan, reserved
from cotenant.ranking.preparation import Prepared, path_for, prepare, torch_device
from cotenant.ranking.protocol import Features, ItemScorer, Scorer, SearchSettings
from cotenant.ranking.ranking import ScoredModel, ranks, score, tied
from cotenant.ranking.scorers import find_scorer
from cotenant.ranking.tree import Extraction, Path, TreeNode, grow, steps_with_sharing, steps_without_sharing
from cotenant.text import amount

log = logging.getLogger(__name__)

RAW = "raw-input"
TOLD_EVERY_S = 0.3


def search(settings: SearchSettings, folder: SearchFolder, listener: Listener) -> SearchOutcome:
    """Carry out a search in its folder; existing results are not recomputed."""
    with folder.held():
        session = _Session(settings, folder, listener)
        outcome = session.run()
        folder.note(state="done")
        return outcome


class _Session:
    def __init__(self, settings: SearchSettings, folder: SearchFolder, listener: Listener) -> None:
        self._settings, self._folder, self._listener = settings, folder, listener
        self._allowance = Allowance(settings.budget_s)
        self._before_s = float(folder.known.get("spent_s", 0.0))
        import transformers  # noqa: F401 - code is not what the memory is meant for: it is there before the count begins

        self._memory_before = psutil.Process().memory_info().rss
        self._stages_before: dict[str, float] = dict(folder.known.get("stages_s", {}))
        self._told = 0.0
        self._leader: str | None = None
        self._notes: list[str] = []
        self._parts = 0

    def run(self) -> SearchOutcome:
        settings = self._settings
        ready = prepare(settings, lambda doing, share: self._listener(Working(doing, share * 0.01, None)))
        self._ready = ready
        self._judge = ModelJudge(ready.bench, ready.scorer, self._folder, settings.seed)
        require_same_inputs(self._folder, ready)
        made = plan(ready, settings, self._allowance, self._folder.known.get("items"))
        self._predicted_s = made.predicted_s
        require_space(self._folder, ready, made.rounds)
        paths = [ready.paths[number] for number in ready.ranked]
        alone = steps_without_sharing(paths)
        together = steps_with_sharing(grow(paths)) if paths else 0
        self._listener(
            PlannedSearch(
                len(paths), made.items, len(made.rounds), made.predicted_s, alone, together, (*ready.notes, *made.notes)
            )
        )
        self._folder.note(
            items=made.items,
            predicted_s=self._folder.known.get("predicted_s", made.predicted_s),
            prepared_s=float(self._folder.known.get("prepared_s", 0.0)) + self._allowance.spent_s,
        )
        self._planned_at = self._allowance.worked = time.monotonic()
        rounds = self._rounds(made.rounds) if paths else []
        items = rounds[-1]["items"] if rounds else made.items
        ranking = self._ranking(rounds)
        baselines = self._baselines(ranking, items)
        outcome = SearchOutcome(
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
            timed=tuple(Timed(self._name(candidate), self._ms(candidate)) for candidate in ready.timed),
            baselines=baselines,
            shared=self._shared(grow(paths)) if paths else (),
            steps_alone=alone,
            steps_shared=together,
            stages_s=self._stages(),
            predicted_s=float(self._folder.known["predicted_s"]),
            actual_s=self._before_s + time.monotonic() - self._planned_at,
            memory_bytes=settings.memory_bytes,
            peak_bytes=max(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - self._memory_before),
            parts=self._parts,
            prepared_s=float(self._folder.known["prepared_s"]),
            notes=(*ready.notes, *made.notes, *self._notes),
            top=settings.top,
        )
        self._save()
        return outcome

    def _rounds(self, plan: Sequence[Round]) -> list[dict[str, Any]]:
        """Extract and score, round by round; completed rounds are read from the folder.

        When time runs out, the last round has seen fewer items than planned; the folder doesn't record that.
        """
        ready, over = self._ready, list(self._folder.known.get("rounds", []))
        alive = list(ready.ranked)
        for number, step in enumerate(plan, 1):
            if number > len(over):
                after = afterwards(ready, self._settings.top, len(alive))
                paths = [ready.paths[candidate] for candidate in alive]
                reached = self._extend(paths, step.items, f"round {number} of {len(plan)}", later=after)
                if reached < step.items:
                    warning, go_on = (
                        left_over(plan, number, reached, self._allowance),
                        resume_command(self._folder.path),
                    )
                    if reached >= ready.least_items and (not over or reached > over[-1]["items"]):
                        over.append(self._scored(alive, Round(reached, len(alive), len(alive))))
                    elif not over:
                        raise CotenantError(f"{warning}: too few to rank by", hint=go_on)
                    self._notes.append(f"{warning}; to continue: {go_on}")
                    break
                over.append(self._scored(alive, step))
                self._save(rounds=over)
            kept = set(over[number - 1]["kept"])
            best = over[number - 1]["kept"][0]
            self._leader = best
            log.info("round %d of %d: kept %d of %d candidates", number, len(plan), len(kept), len(alive))
            self._listener(
                RoundEnded(
                    number, len(plan), over[number - 1]["items"], len(alive), len(kept), best,
                    over[number - 1]["scores"][best],
                )
            )  # fmt: skip
            alive = [candidate for candidate in alive if self._name(candidate) in kept]
        return over

    def _scored(self, alive: Sequence[int], step: Round) -> dict[str, Any]:
        scores = {}
        for number, candidate in enumerate(alive):
            self._tell(f"scoring {self._name(candidate)} ({number + 1} of {len(alive)})")
            scores[self._name(candidate)] = self._judge.score(self._ready.paths[candidate].leaf, step.items).score
            log.debug("%s scores %.4g on %d items", self._name(candidate), scores[self._name(candidate)], step.items)
            self._allowance.done_s += self._ready.score_s(step.items)
        order = sorted(scores, key=lambda name: -scores[name])
        return {"items": step.items, "scores": scores, "kept": order[: step.keep]}

    def _extend(self, paths: Sequence[Path], items: int, doing: str, *, later: Later, at_least: int = 0) -> int:
        """Make sure that the features of the first items exist for these candidates, while time permits.

        Args:
            paths: The candidates.
            items: Number of items.
            doing: Progress message.
            later: Work to reserve time for.
            at_least: Minimum number of items, whatever the time.

        Returns:
            Number of items available for every candidate: fewer if time runs out.
        """
        folder, ready = self._folder, self._ready
        leaf_of = {path.candidate: path.leaf for path in paths}

        def advance(node: TreeNode, passed: int) -> None:
            self._allowance.done_s += sum(step.seconds for step in node.steps) * passed
            self._tell(f"{doing}: {items:,} items, {amount(len(paths), 'model')}")

        while True:
            ends = {path.leaf: folder.have(path.leaf) for path in paths}
            first = min(ends.values())
            if first >= items:
                return items
            some = [path for path in paths if ends[path.leaf] == first]
            root = grow(some)
            further = min((end for end in ends.values() if end > first), default=items)
            last = min(items, further, first + ready.part_items(some, items - first))
            in_time = first + self._allowance.items(per_item_s=root.seconds, later=later, first=first)
            if last > max(in_time, at_least):
                last = min(last, max(int(in_time), at_least) // ready.bench.batch * ready.bench.batch)
            if last <= first:
                return first
            self._parts += 1

            def done(node: TreeNode, features: Features, first: int = first) -> None:
                with ready.bench.watch.stage("store"):
                    folder.commit(leaf_of[node.candidates[0]], first, features)

            extraction = Extraction(ready.bench, ready.shelf, done, advance)
            extraction.run(root, ready.bench.batches(first, last))
            self._save()

    def _ranking(self, rounds: Sequence[dict[str, Any]]) -> tuple[Ranked, ...]:
        """Those that saw the most items first; within a round by score."""
        by_name = {self._name(candidate): candidate for candidate in self._ready.ranked}
        order: list[tuple[str, int]] = []
        for number in range(len(rounds), 0, -1):
            step = rounds[number - 1]
            listed = {name for name, _ in order}
            names = sorted(step["scores"], key=lambda name: -step["scores"][name])
            order += [(name, number) for name in names if name not in listed]
        scored = []
        for position, (name, number) in enumerate(order):
            step, leaf = rounds[number - 1], self._ready.paths[by_name[name]].leaf
            if position < self._settings.top:
                self._tell(f"interval of the score of {name}")
                scored.append(self._judge.score(leaf, step["items"], with_interval=True))
            else:
                scored.append(ScoredModel(step["scores"][name], step["items"]))
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
        """Raw input, and random weights in every architecture that saw all items; none without anything to compare."""
        if not ranking:
            return ()
        ready = self._ready
        bench = ready.bench
        by_name = {self._name(candidate): candidate for candidate in ready.ranked}
        names = [line.name for line in ranking if line.left_in_round is None]
        best = ready.paths[by_name[ranking[0].name]].leaf
        finalists = {bench.candidates[by_name[name]].architecture for name in names}
        random = [candidate for candidate in ready.baselines if bench.candidates[candidate].architecture in finalists]
        paths = [path_for(bench, candidate, ready.shelf.read(candidate), ready.probed) for candidate in random]
        baselines = []
        for number, path in enumerate(paths):
            # Share the time among those still to come.
            to_come = paths[number + 1 :]
            after = reserved(ready, len(to_come) + 2, sum(step.seconds for other in to_come for step in other.steps))
            name = self._name(path.candidate)
            reached = self._extend(
                [path], items, f"baseline: {name}", later=after, at_least=min(items, ready.least_items)
            )
            baselines.append(self._baseline(name, path.leaf, reached, best))
            if reached < items:
                beside = f"the best has {self._judge.score(best, reached).score:.3f} on those"
                self._notes.append(f"For lack of time {name} was scored on only {reached:,} items; {beside}.")
        if bench.logits:
            self._notes.append(f"{ready.scorer.name} scores a head's output, so there is no raw-input baseline.")
            return tuple(baselines)
        sample = by_name[names[0]]
        while (first := self._folder.have(RAW)) < items:
            self._tell(f"baseline: {raw_name(bench)}")
            last = min(items, first + 32 * bench.batch)
            with bench.watch.stage("load_data"):
                features = raw_features(bench, bench.order[first:last], sample)
            self._folder.commit(RAW, first, features)
        return (*baselines, self._baseline(raw_name(bench), RAW, items, best))

    def _baseline(self, name: str, leaf: str, items: int, best: str) -> Baseline:
        """Compared with the best candidate on the same items."""
        scored = self._judge.score(leaf, items, with_interval=True)
        above = self._judge.score(best, items, with_interval=True)
        return Baseline(name, scored.estimate, above.score > scored.score and not tied(above, scored))

    def _shared(self, root: TreeNode) -> tuple[Shared, ...]:
        return tuple(
            Shared(tuple(map(self._name, node.through)), tuple(step.label for step in node.steps))
            for node in root.walk()
            if len(node.through) > 1 and node.steps
        )

    def _tell(self, doing: str) -> None:
        now = time.monotonic()
        if now - self._told < TOLD_EVERY_S:
            return
        self._told = now
        share = min(1.0, self._allowance.done_s / max(self._predicted_s, 1e-9))
        spent = now - self._planned_at
        whole = spent / share if share > 0.1 else max(self._predicted_s, spent)
        self._listener(Working(doing, share, whole - spent, self._leader))

    def _save(self, **more: Any) -> None:
        self._folder.note(spent_s=self._before_s + time.monotonic() - self._planned_at, stages_s=self._stages(), **more)

    def _stages(self) -> dict[str, float]:
        """Seconds by stage, including earlier sessions."""
        now = self._ready.bench.watch.seconds
        return {
            stage: self._stages_before.get(stage, 0.0) + now.get(stage, 0.0)
            for stage in dict.fromkeys((*self._stages_before, *now))
        }

    def _name(self, candidate: int) -> str:
        return self._ready.bench.candidates[candidate].name

    def _ms(self, candidate: int) -> float:
        return 1e3 * sum(step.seconds for step in self._ready.paths[candidate].steps)


class ModelJudge:
    """Scores the first items of a model."""

    def __init__(self, bench: SearchBench, scorer: Scorer, folder: SearchFolder, seed: int) -> None:
        self._bench, self._scorer, self._folder, self._seed = bench, scorer, folder, seed
        self._known: dict[tuple[str, int, bool], ScoredModel] = {}

    def score(self, leaf: str, items: int, *, with_interval: bool = False) -> ScoredModel:
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


def require_same_inputs(folder: SearchFolder, ready: Prepared) -> None:
    """A resumed search must find what it left; a new one notes it."""
    names = [candidate.name for candidate in ready.bench.candidates]
    now = {
        "data": ready.bench.data.fingerprint,
        "batch": ready.bench.batch,
        "candidates": {names[candidate]: ready.paths[candidate].leaf for candidate in ready.ranked},
    }
    before = folder.known.get("inputs")
    if before is not None and before != now:
        changed = "the data" if before["data"] != now["data"] else "a candidate"
        raise CotenantError(
            f"{changed} of {folder.path} changed, so the search can't be resumed",
            hint="start a new search",
        )
    folder.note(inputs=now)


def require_space(folder: SearchFolder, ready: Prepared, plan: Sequence[Round]) -> None:
    """Check that there is disk space for the features."""
    widest = max((ready.paths[candidate].steps[-1].out_bytes for candidate in ready.ranked), default=0)
    needed, shown = 0, 0
    for step in plan:
        needed += step.models * (step.items - shown) * widest
        shown = step.items
    needed += shown * (widest + 4 * 3 * SIDE**2)
    free = shutil.disk_usage(folder.path).free
    if needed > free:
        raise CotenantError(
            f"not enough space for the features: they take up to {needed / 1e9:.3g} GB, but {folder.path} has "
            f"{free / 1e9:.3g} GB free",
            hint="--out a folder on another disk, or fewer models",
        )


def refuse_early(settings: SearchSettings) -> tuple[tuple[str, ...], int]:
    """Refuse invalid options before a folder is created; returns models without weights, and how many have them."""
    if settings.top < 1:
        raise CotenantError("a ranking needs at least one line", hint="--top 10")
    candidates = resolve(settings.models)
    bare = tuple(candidate.name for candidate in candidates if not candidate.pretrained)
    find_scorer(settings.scorer)
    torch_device(settings.device)
    return bare, len(candidates) - len(bare)
