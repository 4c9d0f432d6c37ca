"""Any file ends in a study or in sentences, never in a traceback."""

import contextlib
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.errors import StudyError
from cotenant.study.expand import expand, needs_capacity
from cotenant.study.files import load_study, study_from, study_from_text
from cotenant.study.schema import builtin_file

steady = settings(deadline=None, derandomize=True, max_examples=150)
QUICK = builtin_file("quick").read_text()

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(["solo", "pairs", "all", "a", "b", "closed(1)", "2s", "3%", "p99", "mps", "poisson(70%)"]),
)
keys = st.one_of(
    st.text(max_size=4),
    st.sampled_from(
        [
            "tenants",
            "mixes",
            "sharing",
            "loads",
            "blocks",
            "until",
            "copies",
            "groups",
            "a",
            "b",
            "workload",
            "slo",
            "mps",
        ]
    ),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)
TOP = ("name", "mixes", "sharing", "settings", "loads", "window", "lead", "until", "budget", "blocks", "seed")


@contextlib.contextmanager
def sentences_at_most() -> Iterator[None]:
    """A refusal is fine if each problem is one printable line."""
    problems: tuple[str, ...] = ("none",)
    try:
        yield
    except StudyError as refusal:
        problems = refusal.problems
    assert problems
    assert all(problem.isprintable() for problem in problems), problems


@steady
@given(
    data=st.fixed_dictionaries(
        {"tenants": values | st.just({"a": {"workload": "x"}, "b": {"workload": "y"}})},
        optional=dict.fromkeys(TOP, values),
    )
)
def test_any_data(data: dict[str, Any]):
    with sentences_at_most():
        study = study_from(data)
        needs_capacity(study)
        expand(study, 0, ("processes",))


@steady
@given(text=st.text(max_size=40))
def test_any_text(text: str):
    with sentences_at_most():
        study_from_text(text, "s")


@steady
@given(
    start=st.integers(0, len(QUICK)), length=st.integers(0, 30), other=st.text("{}[]:,&*!#-'\"\t \n%0aé\0", max_size=6)
)
def test_a_valid_file_with_a_corruption(start: int, length: int, other: str):
    with sentences_at_most():
        study_from_text(QUICK[:start] + other + QUICK[start + length :], "s")


@steady
@given(key=st.lists(keys | st.sampled_from(["0", "-1", "9"]), max_size=4).map(".".join), value=st.text(max_size=8))
def test_any_override(key: str, value: str):
    with sentences_at_most():
        load_study("quick", [f"{key}={value}"])
