"""`--exact` gives the results of an exhaustive search: the same features bit for bit, the same scores and order."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from cotenant.api.search import search
from cotenant.ranking.candidates import resolve
from cotenant.ranking.chain import Chain, pooled
from cotenant.ranking.costs import even_order
from cotenant.ranking.data import open_data
from cotenant.ranking.folder import SearchFolder
from cotenant.ranking.reading import read
from cotenant.ranking.scorers import find_scorer
from cotenant.workloads.models.weights import load

pytestmark = pytest.mark.slow


def exhaustively(data, folders, scorer):
    """Every model on its own, complete, as a script would do it."""
    items = open_data(str(data))
    order = even_order(items.labels, 0)
    found = {}
    for candidate in resolve([str(folder) for folder in folders]):
        entry = candidate.entry
        model = load(entry, entry.modes[0], candidate.weights, dtype=torch.float32, seed=0)
        rows, heads = [], []
        if entry.family == "vision":
            linear = [module for module in model.modules() if isinstance(module, torch.nn.Linear)][-1]
            linear.register_forward_pre_hook(lambda _, args, heads=heads: heads.append(args[0]))
        with torch.inference_mode():
            for at in range(0, len(items), 32):
                batch = items.load([int(item) for item in order[at : at + 32]], candidate.shape)
                out = model(**batch)
                rows.append(heads[-1] if heads else pooled(out.last_hidden_state, batch["attention_mask"]))
        features = torch.cat(rows).numpy()
        right = find_scorer(scorer).tested(features, items.labels[order], classes=len(items.classes), seed=0)
        found[candidate.name] = (features, right.mean())
    return found


def compare(outcome, expected):
    folder = SearchFolder.open(outcome.folder)
    leaves = folder.known["inputs"]["candidates"]
    for name, (features, score) in expected.items():
        assert np.array_equal(folder.features(leaves[name], outcome.items), features), name
        assert next(line for line in outcome.ranking if line.name == name).estimate.est == score
    order = sorted(expected, key=lambda name: -expected[name][1])
    assert [line.estimate.est for line in outcome.ranking] == [expected[name][1] for name in order]
    assert sorted(line.name for line in outcome.ranking) == sorted(order)


def test_35_siblings_that_share_trunks(siblings, photos, tmp_path):
    made = [
        *siblings("vit-b-16-mini", 15, changed=1, folder="top"),
        *siblings("vit-b-16-mini", 10, changed=2, seed=0, folder="half"),
        *siblings("vit-b-16-mini", 10, changed=1, seed=7, folder="other"),
    ]
    for place, one in enumerate(made):
        made[place] = one.rename(one.with_name(f"{one.parent.name}-{one.name}"))
    outcome = search(str(photos), [str(one) for one in made], scorer="knn", exact=True, top=2, out=tmp_path / "out")
    compare(outcome, exhaustively(photos, made, "knn"))
    assert outcome.steps_shared < 0.5 * outcome.steps_alone
    assert {len(one.candidates) for one in outcome.shared} >= {35, 25, 10}


def test_full_models_of_different_architectures(siblings, photos, tmp_path):
    made = [
        siblings("mobilenet-v2-mini", 1, changed=1, folder="a")[0],
        siblings("vit-b-32-mini", 1, changed=1, folder="b")[0],
    ]
    for place, one in enumerate(made):
        made[place] = one.rename(one.with_name(f"model-{place}"))
    outcome = search(str(photos), [str(one) for one in made], scorer="linear", exact=True, out=tmp_path / "out")
    compare(outcome, exhaustively(photos, made, "linear"))


def test_texts_in_parts_forced_by_a_small_memory(siblings, text_table, tmp_path):
    made = siblings("bert-base-mini", 2, changed=2)
    whole = search(text_table, [str(made[0].parent)], scorer="knn", exact=True, out=tmp_path / "whole")
    expected = exhaustively(text_table, made, "knn")
    compare(whole, expected)
    needed = least_memory(whole, made)
    parts = search(
        text_table, [str(made[0].parent)], scorer="knn", exact=True, memory_bytes=needed, out=tmp_path / "parts"
    )
    compare(parts, expected)
    assert parts.parts > whole.parts


def least_memory(outcome, made):
    """The minimum, parsed from the refusal of a small budget."""
    from cotenant.errors import DoesNotFit

    with pytest.raises(DoesNotFit, match="even a single batch") as refused:
        search(outcome.data, [str(made[0].parent)], memory_bytes=1_000_000, out=outcome.folder.parent / "tiny")
    return int(float(refused.value.hint.split()[1].removesuffix("MB,")) * 1e6)


def test_halving_extracts_no_item_twice_and_ranks_like_the_exact_search_where_it_counts(siblings, photos, tmp_path):
    made = siblings("vit-b-16-mini", 5, changed=1, seed=3)  # not the seed of the random baseline
    outcome = search(str(photos), [str(made[0].parent)], scorer="knn", out=tmp_path / "out")
    folder = SearchFolder.open(outcome.folder)
    for name, leaf in folder.known["inputs"]["candidates"].items():
        line = next(one for one in outcome.ranking if one.name == name)
        parts = sorted((outcome.folder / "features" / leaf).glob("*.npy"))
        ends = [tuple(map(int, part.stem.split("-"))) for part in parts]
        assert ends[0][0] == 0
        assert all(one[1] == other[0] for one, other in pairwise(ends))
        assert folder.have(leaf) == line.estimate.n
    finalists = [line for line in outcome.ranking if line.left_in_round is None]
    expected = exhaustively(photos, made, "knn")
    for line in finalists:
        assert line.estimate.est == expected[line.name][1]


def test_a_candidate_is_read_again_after_its_weights_were_evicted(siblings):
    from cotenant.ranking.bench import Shelf

    candidates = resolve([str(siblings("vit-b-16-mini", 3, changed=1)[0].parent)])
    chain = Chain(candidates[0].entry)
    times = []

    def reading(number):
        times.append(number)
        return read(candidates[number], chain)

    shelf = Shelf(reading, limit_bytes=10**9)
    digests = [shelf.read(number).digests for number in range(3)]
    shelf.take(digests[0], 0)
    assert times == [0, 1, 2]
    shelf.limit_bytes = 0
    shelf.read(2)
    kept = shelf.take(digests[0], 0)
    assert times == [0, 1, 2, 2, 0]
    assert shelf.held_bytes == 0
    again = read(candidates[0], chain)
    assert all(torch.equal(piece[name], again.pieces[digest][name])
               for piece, digest in zip(kept, digests[0], strict=True) for name in piece)  # fmt: skip
