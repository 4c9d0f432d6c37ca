"""The same study twice on a shared machine: how often `compare` reports a change.

1,000 pairs of runs in simulated time.
"""

from collections import Counter

import pytest

from cotenant.analyse.comparison.changes import LEVEL
from cotenant.analyse.comparison.pair import compare_pair
from tests.analyse.comparison.machines import LOADS, Study, quiet

pytestmark = pytest.mark.slow

PAIRS = 250
"""Under each of four loads."""
CHANCE = 3.0
"""Standard deviations of a count that the level allows for."""


def compared(load, seed, **study):
    before, now = {}, study.pop("now", {})
    runs = [Study(**study, **own).run(name, load, seed) for name, own in (("before", before), ("now", now))]
    return compare_pair(*runs)


def claimed(found):
    """The worst claim about the two runs."""
    if found.withheld:
        return "withheld"
    verdicts = {one.outcome.verdict for one in (*found.rows, *found.tenants)}
    verdicts |= {found.common.outcome.verdict} if found.common else set()
    return next((verdict for verdict in ("slower", "faster") if verdict in verdicts), "no change")


@pytest.mark.parametrize("tenants", [2, 3], ids=["two tenants", "three tenants"])
@pytest.mark.parametrize("load", LOADS)
def test_false_alarms_stay_below_the_stated_level(load, tenants):
    pairs = PAIRS // 2
    said = Counter(claimed(compared(LOADS[load], seed, tenants=tenants)) for seed in range(pairs))
    allowed = LEVEL * pairs + CHANCE * (LEVEL * (1 - LEVEL) * pairs) ** 0.5
    assert said["slower"] <= allowed, said
    assert said["faster"] <= allowed, said


def test_on_a_busy_machine_the_verdict_is_withheld_first_of_all():
    from cotenant.analyse.comparison.sentences import comparison_sentences

    found = next(
        found for seed in range(50) if (found := compared(LOADS["steady"], seed)).before.doubtful == found.before.trials
    )
    assert claimed(found) == "withheld"
    assert not found.regression
    assert comparison_sentences(found)[0].startswith("No verdict: 36 of 36 trials before are not valid (quiet_machine)")
    assert {row.outcome.verdict for row in found.rows} == {"ambiguous"}


def test_a_true_change_is_still_found_on_a_quiet_machine():
    found = [compared(quiet, seed, now={"slower": 1.15}) for seed in range(20)]
    assert sum(one.regression for one in found) >= 18
