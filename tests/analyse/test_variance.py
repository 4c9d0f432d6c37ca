import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.analyse.variability.decomposition import variance_components


def nested(rng, sizes, spreads):
    """Balanced values with labels: sizes and spreads from the outermost level to the residual."""
    shape = tuple(sizes)
    data = np.zeros(shape)
    for depth, spread in enumerate(spreads):
        data += spread * rng.normal(size=shape[: depth + 1] + (1,) * (len(shape) - depth - 1))
    labels = np.indices(shape).reshape(len(shape), -1)
    return data.ravel(), labels


@given(st.integers(0, 1000))
def test_two_levels_are_the_textbooks_anova(seed):
    rng = np.random.default_rng(seed)
    data, labels = nested(rng, (8, 5), (1.0, 2.0))
    process, residual = variance_components(data, {"process": labels[0]})
    groups = data.reshape(8, 5)
    within = groups.var(axis=1, ddof=1).mean()
    between = 5 * groups.mean(axis=1).var(ddof=1)
    assert residual.variance == pytest.approx(within)
    assert process.variance == pytest.approx(max(0, (between - within) / 5))


def test_known_components_come_back_on_average():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(150):
        data, labels = nested(rng, (10, 4, 6), (3.0, 2.0, 1.0))
        found.append([c.variance for c in variance_components(data, {"machine": labels[0], "process": labels[1]})])
    assert np.mean(found, axis=0) == pytest.approx([9, 4, 1], rel=0.1)


def test_known_components_come_back_from_groups_of_unequal_size():
    rng = np.random.default_rng(1)
    found = []
    for _ in range(150):
        data, labels = nested(rng, (10, 4, 6), (3.0, 2.0, 1.0))
        keep = rng.random(data.size) < 0.7
        parts = variance_components(data[keep], {"machine": labels[0][keep], "process": labels[1][keep]})
        found.append([c.variance for c in parts])
    assert np.mean(found, axis=0) == pytest.approx([9, 4, 1], rel=0.12)


def test_shares_add_up_and_name_their_levels():
    data, labels = nested(np.random.default_rng(2), (6, 5, 4), (1.0, 0.0, 1.0))
    parts = variance_components(data, {"machine": labels[0], "process": labels[1]})
    assert [part.level for part in parts] == ["machine", "process", "residual"]
    assert [part.groups for part in parts] == [6, 30, 120]
    assert sum(part.share for part in parts) == pytest.approx(1)
    assert all(part.variance >= 0 for part in parts)


def test_labels_need_to_be_unique_only_within_their_group():
    data, labels = nested(np.random.default_rng(3), (5, 3, 4), (1.0, 1.0, 1.0))
    unique = [f"{a}-{b}" for a, b in zip(labels[0], labels[1], strict=True)]
    assert variance_components(data, {"m": labels[0], "p": labels[1]}) == variance_components(
        data, {"m": labels[0], "p": unique}
    )


def test_levels_that_coincide_are_an_error():
    with pytest.raises(ValueError, match="two groups"):
        variance_components([1.0, 2.0], {"machine": ["a", "a"]})
    with pytest.raises(ValueError, match="splits nothing"):
        variance_components([1.0, 2.0, 3.0, 4.0], {"machine": [1, 1, 2, 2], "copy": [1, 1, 2, 2]})
    with pytest.raises(ValueError, match="labels 1 values"):
        variance_components([1.0, 2.0], {"machine": ["a"]})
