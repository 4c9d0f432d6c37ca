"""Before the first round: which candidates fit, what they share and cost, and how memory is divided."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from cotenant.errors import DataError, DeviceError, DoesNotFit, WorkloadError
from cotenant.ranking.bench import LARGEST_BATCH, SearchBench, Shelf, new_shelf
from cotenant.ranking.candidates import Candidate, random_sibling, resolve
from cotenant.ranking.costs import (
    Probed,
    Round,
    SearchDuration,
    all_at_once,
    even_order,
    path_of,
    predict,
    probe,
    rounds,
)
from cotenant.ranking.protocol import Data, Scorer, SearchSettings
from cotenant.ranking.ranking import score
from cotenant.ranking.reading import Read, piece_bytes
from cotenant.ranking.tree import Path, TreeNode, grow
from cotenant.workloads.models import ModelWorkload
from cotenant.workloads.protocol import WorkloadSpec

SLACK = 1.25
"""Overhead of allocators."""


@dataclass(frozen=True, slots=True)
class Allotment:
    """Parts of the budget, in bytes."""

    shelf_bytes: int
    cache_bytes: int
    room_bytes: int
    """For the current batch and the model being read."""

    def part_items(self, root: TreeNode, batch: int, items: int) -> int:
        """How many of these items can go through the tree at once: a multiple of the batch, or all."""
        if root.need_bytes == 0:
            return items
        return min(items, max(batch, int(self.cache_bytes // (root.need_bytes * SLACK)) // batch * batch))


def allot(
    budget_bytes: int, root: TreeNode, *, weights_bytes: int, largest_bytes: int, working_bytes: int, batch: int
) -> Allotment:
    """Divide the budget.

    Args:
        budget_bytes: The user's limit.
        root: The tree of all candidates.
        weights_bytes: All distinct pieces of weights together.
        largest_bytes: The largest model: while being read, it is in memory besides everything else.
        working_bytes: The most the current batch takes.
        batch: Items in a batch.

    Raises:
        DoesNotFit: Not even a single batch fits.
    """
    room = int((largest_bytes + working_bytes) * SLACK)
    least_cache = int(root.need_bytes * batch * SLACK)
    left = budget_bytes - room - least_cache
    if left < 0:
        needed = room + least_cache
        raise DoesNotFit(
            f"even a single batch of {batch} items does not fit into {budget_bytes / 1e9:.3g} GB: it takes "
            f"{needed / 1e9:.3g} GB ({largest_bytes / 1e9:.3g} GB for the largest model, {working_bytes / 1e9:.3g} GB "
            f"to compute, {least_cache / 1e9:.3g} GB of intermediate features)",
            hint=f"--memory {-(-needed // 10**6)}MB, or fewer or smaller models",
        )
    # Evicted weights have to be read again for each part: they come first, but leave half to the features.
    shelf = min(int(weights_bytes * SLACK), left if root.need_bytes == 0 else left // 2)
    return Allotment(shelf, budget_bytes - room - shelf, room)


SWIFT_BYTES = 96 << 20
"""A CPU takes longer per item of a batch with larger activations: it gets new pages each time."""
PART_S = 20.0
"""Features are on disk after about this long, which limits what a kill can cost."""
ITEMS_PER_CLASS = 8
NEEDS_HEAD = ("leep", "nce")
"""Scorers that use the logits of a model's original head."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A search ready to start. Candidates are numbered as in ``bench.candidates``."""

    bench: SearchBench
    shelf: Shelf
    scorer: Scorer
    ranked: tuple[int, ...]
    timed: tuple[int, ...]
    """Random weights: never ranked."""
    baselines: tuple[int, ...]
    """Random siblings of the architectures, read only when needed."""
    paths: dict[int, Path]
    probed: dict[tuple[str, str], Probed]
    """The cost of each architecture."""
    allotment: Allotment
    everything_fits: bool
    """True if all weights stay in memory, so that many small parts cost nothing."""
    read_s: float
    score_s: Callable[[int], float]
    notes: tuple[str, ...]

    def part_items(self, paths: Sequence[Path], items: int) -> int:
        """Number of items that go through these candidates' tree at once."""
        root = grow(paths)
        most = self.allotment.part_items(root, self.bench.batch, items)
        if not self.everything_fits or not root.seconds:
            return most
        return min(most, max(self.bench.batch, int(PART_S / root.seconds) // self.bench.batch * self.bench.batch))

    @property
    def least_items(self) -> int:
        """The minimum number of items for a useful score, in complete batches."""
        items = max(2 * self.bench.batch, ITEMS_PER_CLASS * len(self.bench.data.classes))
        return min(len(self.bench.data), ceil(items / self.bench.batch) * self.bench.batch)

    def plan(self, items: int, *, exact: bool) -> tuple[Round, ...]:
        """The rounds over that many items."""
        if exact:
            return all_at_once(len(self.ranked), items)
        return rounds(len(self.ranked), items, batch=self.bench.batch, least=self.least_items)

    def predict(self, plan: Sequence[Round]) -> SearchDuration:
        """Duration of these rounds."""
        return predict(
            {candidate: self.paths[candidate] for candidate in self.ranked},
            plan,
            read_s=0.0 if self.everything_fits else self.read_s,
            parts=lambda paths, items: ceil(items / self.part_items(paths, items)) if items else 0,
            score_s=self.score_s,
            seed=0,
        )


def prepare(settings: SearchSettings, tell: Callable[[str, float], None]) -> Prepared:
    """Open the data, read every candidate once, and time one batch of each architecture.

    Args:
        settings: The user's settings.
        tell: Called with the current step and the share of the preparation done.

    Raises:
        CotenantError: Something can't be used; the message says what.
    """
    from cotenant.ranking.data import open_data
    from cotenant.ranking.scorers import find_scorer

    scorer = find_scorer(settings.scorer)
    device = torch_device(settings.device)
    tell(f"opening {settings.data}", 0.0)
    data = open_data(settings.data, skip_bad=settings.skip_bad)
    candidates, notes = _fitting(resolve(settings.models, seed=settings.seed), data)
    working = _working_bytes(candidates)
    bench = SearchBench(
        data=data,
        order=even_order(data.labels, settings.seed),
        candidates=(*candidates, *_siblings(candidates)),
        device=device,
        batch=_batch(working, device, len(data)),
        logits=settings.scorer in NEEDS_HEAD,
    )
    shelf = new_shelf(bench, settings.memory_bytes // 2)
    probed: dict[tuple[str, str], Probed] = {}
    paths, sizes, largest, read_s = _read_all(bench, shelf, len(candidates), probed, tell)
    ranked = tuple(number for number, candidate in enumerate(candidates) if candidate.pretrained)
    measured = ranked or tuple(paths)
    allotment = allot(
        settings.memory_bytes,
        grow([paths[number] for number in measured]),
        weights_bytes=sum(sizes.values()),
        largest_bytes=largest,
        working_bytes=working * bench.batch,
        batch=bench.batch,
    )
    shelf.limit_bytes = allotment.shelf_bytes
    widest = max(paths[number].steps[-1].out_bytes // 4 for number in measured)
    return Prepared(
        bench=bench,
        shelf=shelf,
        scorer=scorer,
        ranked=ranked,
        timed=tuple(number for number, candidate in enumerate(candidates) if not candidate.pretrained),
        baselines=tuple(range(len(candidates), len(bench.candidates))),
        paths=paths,
        probed=probed,
        allotment=allotment,
        everything_fits=sum(sizes.values()) <= allotment.shelf_bytes,
        read_s=read_s,
        score_s=_score_cost(scorer, data, widest),
        notes=notes,
    )


def torch_device(name: str) -> str:
    """Torch's name for the device."""
    if name == "cpu":
        return name
    if name.startswith("cuda"):
        import torch

        if torch.cuda.is_available():
            return name
        raise DeviceError(f"there is no device {name!r} that torch can use here", hint="--device cpu")
    raise DeviceError(f"a search runs on cpu or cuda:N, not on {name!r}", hint="--device cpu")


def _fitting(candidates: tuple[Candidate, ...], data: Data) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    fitting = tuple(candidate for candidate in candidates if candidate.kind == data.kind)
    if not fitting:
        raise WorkloadError(
            f"{data.name} contains {data.kind}s, but none of the candidates reads {data.kind}s",
            hint="`cotenant workloads` lists vision models and encoders",
        )
    notes = [
        f"{candidate.name} reads {candidate.kind}s, so it was left out."
        for candidate in candidates
        if candidate.kind != data.kind
    ]
    if len(data) < 2:
        raise DataError(f"{data.name} has {len(data)} items, too few to rank by")
    return fitting, tuple(notes)


def _siblings(candidates: Sequence[Candidate]) -> list[Candidate]:
    """A random sibling for each architecture of the ranked (or, if none is, of the first)."""
    ranked = [candidate for candidate in candidates if candidate.pretrained] or list(candidates[:1])
    by_architecture = {candidate.architecture: candidate for candidate in reversed(ranked)}
    siblings = [random_sibling(candidate) for candidate in reversed(by_architecture.values())]
    names = [sibling.name for sibling in siblings]
    return [
        sibling
        if names.count(sibling.name) == 1
        else Candidate(f"{sibling.name} ({number})", sibling.entry, None, sibling.seed)
        for number, sibling in enumerate(siblings, 1)
    ]


def _read_all(
    bench: SearchBench,
    shelf: Shelf,
    count: int,
    probed: dict[tuple[str, str], Probed],
    tell: Callable[[str, float], None],
) -> tuple[dict[int, Path], dict[str, int], int, float]:
    paths: dict[int, Path] = {}
    sizes: dict[str, int] = {}
    largest, began = 0, time.perf_counter()
    spent_probing = 0.0
    for number in range(count):
        tell(f"reading {bench.candidates[number].name}", number / count)
        weights = shelf.read(number)
        before = time.perf_counter()
        paths[number] = path_for(bench, number, weights, probed)
        spent_probing += time.perf_counter() - before
        sizes |= {digest: piece_bytes(piece) for digest, piece in weights.pieces.items()}
        largest = max(largest, weights.bytes)
    return paths, sizes, largest, (time.perf_counter() - began - spent_probing) / count


def path_for(bench: SearchBench, number: int, weights: Read, probed: dict[tuple[str, str], Probed]) -> Path:
    """A candidate's path; costs are measured once per architecture."""
    candidate, chain = bench.candidates[number], bench.chain(number)
    key = (candidate.architecture, candidate.shape_key)
    if key not in probed:
        with bench.watch.stage("plan"):
            probed[key] = probe(bench, number, weights)
    return path_of(number, candidate.shape_key, weights.digests, [piece.label for piece in chain.pieces], probed[key])


def _batch(working_bytes: int, device: str, items: int) -> int:
    """One size for all candidates, since they share batches: a power of two that suits the largest."""
    batch = LARGEST_BATCH
    while device == "cpu" and batch > 1 and batch * working_bytes > SWIFT_BYTES:
        batch //= 2
    return min(batch, items)


def _working_bytes(candidates: Sequence[Candidate]) -> int:
    """Peak memory of an item on its way through a model, from a dry run of each architecture."""
    most = 0
    for candidate in {candidate.architecture: candidate for candidate in candidates}.values():
        seq = None if candidate.kind == "image" else int(candidate.shape["tokens"])
        needs = ModelWorkload(candidate.entry).properties(WorkloadSpec(name=candidate.entry.name, batch=1, seq=seq))
        most = max(most, (needs.peak_memory_bytes or 0) - (needs.weight_bytes or 0))
    return most


def _score_cost(scorer: Scorer, data: Data, width: int) -> Callable[[int], float]:
    """Seconds for that many items, in proportion to the time of a few."""
    few = min(len(data), 256)
    rng = np.random.default_rng(0)
    features = rng.standard_normal((few, width), dtype=np.float32)
    labels = data.labels[even_order(data.labels, 0)[:few]]
    begin = time.perf_counter()
    score(scorer, features, labels, classes=len(data.classes), seed=0)
    per_item = (time.perf_counter() - begin) / few
    return lambda items: per_item * max(items, few)  # fewer items are passed over as often
