import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.analyse.estimates.effects import holm

p_values = st.lists(st.floats(0, 1), max_size=40)


def by_hand(p, level):
    """Holm's procedure by its definition: step down from the smallest, stop at the first that fails."""
    rejected = set()
    for step, index in enumerate(np.argsort(p, kind="stable")):
        if p[index] > level / (len(p) - step):
            break
        rejected.add(int(index))
    return rejected


@given(p_values, st.sampled_from([0.01, 0.05, 0.2]))
def test_adjusted_values_reject_what_the_procedure_rejects(p, level):
    adjusted = holm(p)
    margin = [abs(a - level) > 1e-12 for a in adjusted]
    assert {i for i, a in enumerate(adjusted) if a <= level and margin[i]} == {
        i for i in by_hand(p, level) if margin[i]
    }


@given(p_values)
def test_adjusting_only_raises_and_keeps_the_order(p):
    adjusted = holm(p)
    assert ((adjusted >= np.array(p)) & (adjusted <= 1)).all()
    assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0).all()


def test_a_textbook_case():
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_values_outside_0_to_1_are_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([0.1, float("nan")])
