"""Ranges of simulated numbers: from data sets, wider by what sets a class apart, up to `measure it`."""

import math
from dataclasses import replace

import pytest

from cotenant.prediction.data_sets import Between, DataSet, EffectSteps, comparable
from cotenant.prediction.trust import MEASURE_IT, Class, ModelError, Validated, as_json, classes, error_of, nearest

VISION = Class("ampere", "eager", "vision", "alone", calibrated=False)
STEPS = EffectSteps(
    {
        "software": 0.1,
        "phase": 0.1,
        "family": 0.1,
        "software without constants of its own": 0.2,
        "source": 0.05,
        "data set": 0.02,
    },
    within=0.05,
    validated=2.0,
    borrowed=2.5,
)


def data_set(kind=VISION, mean=0.0, source="a", model="m", n=9):
    return DataSet(kind, "alone", source, model, "a100-sxm4-40gb", n, mean, 0.05, abs(mean))


def width(kind, *sets):
    low, high = Between("alone", sets, STEPS).range_of(kind)
    return high - low


KNOWN = [data_set(source=source, model=model) for source in "abc" for model in "xy"]


def test_a_range_widens_with_every_property_that_no_data_set_shares():
    own = width(VISION, *KNOWN)
    family = width(replace(VISION, family="hopper"), *KNOWN)
    phase = width(replace(VISION, family="hopper", phase="encoder"), *KNOWN)
    software = width(replace(VISION, family="hopper", phase="encoder", software="sglang"), *KNOWN)
    several = width(replace(VISION, family="hopper", phase="encoder", software="sglang", parallel=True), *KNOWN)
    assert own < family < phase < software < several


def test_models_of_one_source_tell_less_than_as_many_of_several():
    alike = [data_set(source="a", model=str(number)) for number in range(6)]
    assert width(VISION, *KNOWN) < width(VISION, *alike)


def test_rows_of_one_data_set_are_no_substitute_for_others():
    assert width(VISION, data_set(n=1000)) > width(VISION, *KNOWN)


def test_a_bias_that_several_sources_show_moves_the_range():
    slower = [replace(found, mean=0.3) for found in KNOWN]
    low, high = Between("alone", slower, STEPS).range_of(VISION)
    assert 0.15 < (low + high) / 2 < 0.3


def test_nothing_known_is_the_widest():
    assert width(VISION) > width(VISION, data_set())


def test_times_given_and_not_given_are_compared_apart_unless_a_way_is_known_in_one_of_them_only():
    mps = Class("ampere", "eager", "vision", "mps", calibrated=False)
    given, shares = replace(mps, calibrated=True), replace(mps, sharing="mps with shares")
    sets = [replace(data_set(kind), bundle="slowdown") for kind in (mps, given, shares)]
    assert {found.kind for found in comparable(sets, "slowdown", calibrated=True)} == {given, shares}


KEPLER = Class("kepler", "eager", "vision", "mps", calibrated=False)


def test_a_class_without_data_sets_says_what_it_borrows():
    found = error_of(KEPLER, "slowdown")
    assert not found.validated
    assert found.sentence.startswith("not validated; range of ")
    assert found.sentence.endswith(" similar data sets")
    assert {kind.sharing for kind in nearest(KEPLER, "slowdown")} == {"mps"}
    assert found.low < 1 < found.high


def test_a_class_of_one_data_set_borrows_and_says_so():
    found = error_of(Class("ampere", "vllm", "prefill", "mps with shares", calibrated=False), "slowdown")
    assert not found.validated
    assert found.sentence.startswith("one source (muxserve on A100); range of ")


def test_a_validated_class_names_its_data_sets_gpus_and_sources():
    found = error_of(VISION, "time")
    assert found.validated
    assert f"rows of {found.groups} data sets on A100 and RTX 3090 (" in found.sentence
    assert "parvagpu" in found.sentence
    assert "timm" in found.sentence


def test_what_nothing_resembles_is_to_be_measured():
    strange = Class("ada", "llama.cpp", "decode", "alone", False, parallel=True, experts=True, format="int4")
    found = error_of(strange, "time")
    assert "measure it" in found.sentence
    assert MEASURE_IT[0] <= found.low < 0.7
    assert 1.5 < found.high <= MEASURE_IT[1]


def test_several_gpus_experts_and_quantised_weights_widen_a_range():
    def width_of(kind):
        found = error_of(kind, "time")
        return math.log(found.high / found.low)

    decode = Class("ampere", "vllm", "decode", "alone", calibrated=False)
    plain, experts = width_of(decode), width_of(replace(decode, experts=True))
    assert plain < experts < width_of(replace(decode, experts=True, format="fp8"))


def test_a_tail_is_wider_than_its_mean():
    mean, tail = error_of(KEPLER, "slowdown"), error_of(KEPLER, "tail")
    assert tail.low < mean.low
    assert tail.high > mean.high


def test_no_shipped_range_is_as_narrow_as_one_models_own_errors():
    """One model that batches of its own confirm is no promise for the next."""
    assert classes()
    assert all(error.high / error.low > 1.2 for error in classes().values())


@pytest.mark.parametrize("low", [MEASURE_IT[0], 0.9])
def test_a_range_that_only_a_measurement_narrows_is_called_so(low):
    assert ModelError(low, MEASURE_IT[1], 0.1, 0, "").unknown == (low == MEASURE_IT[0])


def test_the_file_has_all_that_ranges_are_made_of():
    text = as_json(Validated((data_set(),), {"alone": STEPS}, 0.1, {(VISION, "time"): "a constant, 3 %"}))
    assert '"source": "a"' in text
    assert '"law": "a constant, 3 %"' in text
