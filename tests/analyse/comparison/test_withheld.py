"""A comparison of runs whose trials aren't valid shows its numbers, but no row, tenant or whole gets a verdict."""

from dataclasses import replace

from cotenant.analyse.comparison.pair import compare_pair


def test_a_plain_slowdown_on_a_busy_machine_gets_no_verdict_anywhere(synthetic):
    before = synthetic(run="before", tenants=3, sharings=1, blocks=6).evidence()
    now = synthetic(run="now", tenants=3, sharings=1, blocks=6, slow={"t1": 1.5}).evidence()
    trusted = compare_pair(before, now)
    assert "slower" in {row.outcome.verdict for row in trusted.rows}, "on a quiet machine it is one"
    beside = [replace(item, seen=replace(item.seen, foreign_share=0.25)) for item in now]
    found = compare_pair(before, beside)
    assert found.withheld is not None
    judged = [*found.rows, *found.tenants, *([found.common] if found.common else [])]
    assert {(subject.outcome.verdict, subject.outcome.because) for subject in judged} == {("ambiguous", "not valid")}
    assert [row.outcome.total for row in found.rows] == [row.outcome.total for row in trusted.rows]
    assert not found.regression
