"""The syntax of loads."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from cotenant.tenancy.load import Load

parse = TypeAdapter(Load).validate_python


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("closed(3)", Load(kind="closed", outstanding=3)),
        ("closed", Load(kind="closed")),
        ("poisson(50)", Load(kind="poisson", rate_rps=50)),
        ("poisson(70%)", Load(kind="poisson", rate_share=0.7)),
        ("gamma(20, 2.5)", Load(kind="gamma", rate_rps=20, cv=2.5)),
        ("trace(a b.csv)", Load(kind="trace", path="a b.csv")),
        ("trace(a.csv, 30%)", Load(kind="trace", path="a.csv", rate_share=0.3)),
    ],
)
def test_each_kind_has_one_syntax(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("alias", "means"),
    [
        ("single-stream", "closed(1)"),
        ("multi-stream", "closed(1)"),
        ("offline", "closed(1)"),
        ("server(40)", "poisson(40)"),
        ("server(40%)", "poisson(40%)"),
    ],
)
def test_mlperf_scenarios_are_aliases(alias, means):
    assert str(parse(alias)) == means


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("closed(0)", "number of outstanding requests from 1 to 1024"),
        ("closed(1000000000)", "number of outstanding requests from 1 to 1024"),
        ("gamma(5, 1e9)", "burstiness (cv) must be from 0.001 to 100"),
        ("gamma(5, 1e-200)", "burstiness (cv) must be from 0.001 to 100"),
        ("server", "server requires a rate"),
        ("single-stream(3)", "takes no argument"),
        ("poisson", "expected one of closed(n), poisson(rate)"),
        ("poisson(-3)", "must be above 0"),
        ("poisson(fast)", "is not a number, e.g. 50 or 70%"),
        ("poisson(0%)", "must be above 0"),
        ("gamma(5)", "expected one of"),
        ("burst(5)", "expected one of"),
        ("poisson(inf)", "must be above 0"),
    ],
)
def test_errors_are_explained(text, complaint):
    with pytest.raises(ValidationError, match=re.escape(complaint)):
        parse(text)


@given(st.floats(0.001, 1e6), st.floats(0.1, 10))
def test_a_load_can_be_read_back_from_its_text(rate, cv):
    load = parse(f"gamma({rate:g}, {cv:g})")
    assert parse(str(load)) == load
    assert Load.model_validate_json(load.model_dump_json()) == load
