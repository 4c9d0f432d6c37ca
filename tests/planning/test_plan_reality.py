"""A plan beside its run: slower or faster only where the whole measured interval lies outside the plan's."""

from types import SimpleNamespace

import pytest
from rich.console import Console

from cotenant.planning.mixes.reality import beside
from cotenant.reporting.terminal.plan_reality import answer_of, reality_parts


def row(tenant, est, lo, hi, *, answer="met", share=1.0, mix="all"):
    interval = SimpleNamespace(est=est, lo=lo, hi=hi)
    attained = SimpleNamespace(metric="latency", answer=answer, share=SimpleNamespace(est=share, lo=0.98, hi=1.0))
    return SimpleNamespace(
        of=tenant,
        cell=SimpleNamespace(mix=mix),
        latency_ms={"p99": interval},
        objectives=[(None, attained)],
        tokens=None,
        requests=1000,
    )


def plan(**seats):
    expected = {"p99": {"limit_ms": 60.0, "lower_ms": 18.0, "estimate_ms": 24.0, "upper_ms": 31.0}}
    return {"devices": [{"tenants": {name: {"expected": expected, **seat} for name, seat in seats.items()}}]}


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        ((24.0, 20.0, 40.0), "as planned"),
        ((33.0, 30.0, 50.0), "as planned"),
        ((40.0, 32.0, 50.0), "slower"),
        ((12.0, 10.0, 17.0), "faster"),
        ((40.0, None, None), "can't tell"),
        ((40.0, 20.0, None), "can't tell"),
        ((40.0, 32.0, None), "slower"),
        ((12.0, None, 17.0), "faster"),
    ],
)
def test_the_verdict_needs_the_whole_interval(measured, verdict):
    [one] = beside(plan(search={"batch": 1, "rate_rps": 20.0}), [row("search", *measured)])
    assert one.verdict == verdict


def test_batches_that_fill_add_the_time_to_gather_them_and_others_only_what_usually_waits():
    fills, waits = {"batch": 4, "rate_rps": 100.0}, {"batch": 4, "together": 1, "rate_rps": 100.0}
    found = beside(plan(a=fills, b=waits), [row("a", 10.0, 9.0, 11.0), row("b", 10.0, 9.0, 11.0)])
    assert [one.measured_ms for one in found] == pytest.approx([40.0, 10.0])


def test_a_tenant_is_judged_in_the_largest_mix_that_was_measured():
    rows = [row("search", 5.0, 4.0, 6.0, mix="search"), row("search", 24.0, 22.0, 26.0, mix="photos+search")]
    [one] = beside(plan(search={}), rows)
    assert one.measured_ms == 24.0


def test_the_answer_counts_and_names_and_the_table_fits_a_terminal():
    found = beside(
        plan(search={}, completions={}, recs={}),
        [
            row("search", 24.0, 20.0, 30.0),
            row("completions", 40.0, 35.0, 45.5, answer="missed", share=0.9712),
            row("recs", None, None, None),
        ],
    )
    assert answer_of(found) == (
        "1 of 3 objectives as planned; slower: completions; can't tell: recs; missed: completions"
    )
    console = Console(width=80, record=True, file=None, quiet=False)
    with console.capture() as printed:
        for part in reality_parts(found, simulated=False):
            console.print(part)
    lines = [line.rstrip() for line in printed.get().splitlines()]
    assert "completions   p99 60.0   18.0 to 31.0   40.0 [35.0, 45.5]   97.12 %   slower" in lines
    assert any(line.startswith("recs") and "too few" in line for line in lines)
