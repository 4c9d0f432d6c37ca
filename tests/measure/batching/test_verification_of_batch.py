"""The largest batch that actually runs: the search around a prediction, and the meaning of errors."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.errors import TenantFailed
from cotenant.measure.batching.verification import FINENESS, Attempt, _read, classify, verify


def device_with_room_for(limit):
    return lambda batch: Attempt(batch, "ran") if batch <= limit else Attempt(batch, "out of memory", "full")


@given(limit=st.integers(1, 5000), predicted=st.integers(1, 5000))
def test_the_search_ends_at_the_limit_however_wrong_the_prediction_is(limit, predicted):
    found = verify(predicted, device_with_room_for(limit))
    assert found.largest <= limit < found.smallest_too_large
    assert found.smallest_too_large - found.largest <= max(1, predicted * FINENESS)
    assert found.reason == "out of memory: full"


@given(limit=st.integers(40, 5000), error=st.floats(0.9, 1.1))
def test_a_good_prediction_needs_few_attempts(limit, error):
    assert len(verify(max(1, int(limit * error)), device_with_room_for(limit)).attempts) <= 9


def test_nothing_beyond_the_number_of_items_is_tried():
    found = verify(1000, device_with_room_for(10_000), highest=500)
    assert (found.largest, found.smallest_too_large) == (500, None)


def test_a_model_without_room_for_one_item_has_no_batch():
    assert verify(8, device_with_room_for(0)).largest == 0


def test_a_failure_is_not_a_limit():
    with pytest.raises(TenantFailed, match="not because of its size: no such file"):
        verify(8, lambda batch: Attempt(batch, "failed", "no such file"))


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "out of memory"),
        ("RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried", "out of memory"),
        ("MemoryError: ", "out of memory"),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_SUPPORTED", "library limit"),
        ("RuntimeError: Expected canUse32BitIndexMath(input) to be true, but got false.", "32-bit index"),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied", "failed"),
        ("FileNotFoundError: weights", "failed"),
    ],
)
def test_errors_are_classified(said, kind):
    assert classify(said, limited=False) == kind


def test_a_librarys_allocation_failure_counts_only_under_a_limit():
    said = "RuntimeError: could not create a primitive"
    assert classify(said, limited=True) == "out of memory"
    assert classify(said, limited=False) == "failed"


def ended(code, out="", err=""):
    return _read(7, subprocess.CompletedProcess([], code, out, err), limited=False)


def test_a_process_that_the_kernel_killed_ran_out_of_memory():
    assert ended(-9).kind == "out of memory"


def test_any_other_crash_is_a_failure():
    assert ended(-11, err="Segmentation fault").kind == "failed"
    assert "no error message" in ended(1).said


def test_output_before_the_answer_is_ignored():
    assert ended(0, 'a warning\n{"kind": "ran", "peak_bytes": 5, "seconds": 0.1}') == Attempt(7, "ran", "", 5, 0.1)
