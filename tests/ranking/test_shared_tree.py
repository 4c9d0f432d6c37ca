"""The tree computes shared pieces once, in the order that needs the least cache; halving follows its rule."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.errors import DoesNotFit
from cotenant.ranking.costs import even_order, rounds
from cotenant.ranking.preparation import allot
from cotenant.ranking.tree import Path, TreeNode, TreeStep, grow, steps_with_sharing, steps_without_sharing


def path(candidate, *digests, sizes=None):
    sizes = sizes or [10] * len(digests)
    return Path(candidate, tuple(TreeStep(d, d, size, 0, 1.0) for d, size in zip(digests, sizes, strict=True)))


def test_shared_steps_are_in_the_tree_once():
    paths = [path(0, "data", "a", "b", "t0"), path(1, "data", "a", "c", "t1"), path(2, "data", "a", "c", "t2")]
    root = grow(paths)
    assert [step.digest for step in root.steps] == ["data", "a"]
    assert steps_without_sharing(paths) == 12
    assert steps_with_sharing(root) == 7
    assert root.seconds == 7


def test_equal_models_end_in_one_leaf():
    paths = [path(0, "data", "a", "t"), path(1, "data", "a", "t")]
    assert grow(paths).candidates == (0, 1)
    assert paths[0].leaf == paths[1].leaf


def simulate(node, order):
    """Peak bytes held when children run in a given order, by simulation."""
    if not node.children:
        return 0
    peak, own = node.out_bytes, node.out_bytes
    for place, child in enumerate(order(node)):
        last = place == len(node.children) - 1
        below = simulate(child, order)
        peak = max(peak, below if last else own + below)
    return peak


@st.composite
def trees(draw, depth=3):
    size = draw(st.integers(1, 50))
    count = draw(st.integers(2, 3)) if depth and draw(st.booleans()) else 0
    children = tuple(draw(trees(depth=depth - 1)) for _ in range(count))
    return TreeNode((TreeStep("x", "x", size),), tuple(sorted(children, key=lambda node: node.need_bytes)), (), ())


@given(trees())
def test_no_order_of_children_needs_less_cache(tree):
    def least(node):
        if not node.children:
            return 0
        return min(
            max(
                node.out_bytes,
                *(
                    least(child) + (0 if place == len(order) - 1 else node.out_bytes)
                    for place, child in enumerate(order)
                ),
            )
            for order in itertools.permutations(node.children)
        )

    assert tree.need_bytes == simulate(tree, lambda node: node.children) == least(tree)


def test_data_is_split_when_the_cache_is_small():
    root = grow([path(0, "data", "a", "t0", sizes=[50, 1000, 4]), path(1, "data", "a", "t1", sizes=[50, 1000, 4])])
    roomy = allot(10**7, root, weights_bytes=1000, largest_bytes=500, working_bytes=500, batch=8)
    tight = allot(30_000, root, weights_bytes=1000, largest_bytes=500, working_bytes=500, batch=8)
    assert roomy.part_items(root, 8, 1000) == 1000
    part = tight.part_items(root, 8, 1000)
    assert part % 8 == 0
    assert 8 <= part < 100
    assert part * root.need_bytes <= tight.cache_bytes


def test_a_budget_below_one_batch_is_refused_with_the_amount_needed():
    root = grow([path(0, "data", "a", "t0"), path(1, "data", "a", "t1")])
    with pytest.raises(DoesNotFit, match="even a single batch of 8 items does not fit into"):
        allot(100, root, weights_bytes=10**6, largest_bytes=10**6, working_bytes=0, batch=8)


def test_rounds_double_the_data_and_halve_the_models():
    plan = rounds(35, 2048, batch=32, least=1)
    assert [step.models for step in plan] == [35, 18, 9, 5, 3, 2]
    assert [step.items for step in plan] == [64, 128, 256, 512, 1024, 2048]
    assert plan[-1].keep == 2


@given(st.integers(1, 60), st.integers(1, 3000), st.sampled_from([1, 8, 32]), st.integers(0, 200))
def test_rounds_end_between_batches_and_the_last_sees_all(models, items, batch, least):
    plan = rounds(models, items, batch=batch, least=least)
    assert plan[-1].items == items
    assert all(step.items % batch == 0 or step.items == items for step in plan)
    assert all(one.items <= other.items and other.models == one.keep for one, other in itertools.pairwise(plan))


def test_every_prefix_of_the_order_has_its_share_of_each_class():
    labels = np.repeat([0, 1, 2], [60, 30, 10])
    order = even_order(labels, seed=3)
    assert sorted(order) == list(range(100))
    for count in (20, 50, 70):
        shares = np.bincount(labels[order[:count]], minlength=3) / count
        assert np.abs(shares - [0.6, 0.3, 0.1]).max() < 0.06
