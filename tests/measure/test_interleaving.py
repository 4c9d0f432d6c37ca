"""A complete run of short windows: tenants that stay up, windows that don't overlap, chunks on disk."""

from itertools import pairwise

import pytest

import cotenant
from cotenant.measure.events import Noticed
from cotenant.store.folder import trials_in
from cotenant.study.files import study_from
from cotenant.study.windows import LONG_EVERY, LONG_FROM_S

SLEEPERS = {"a": {"workload": "sleep", "params": {"ms": 2}}, "b": {"workload": "sleep", "params": {"ms": 5}}}
BLOCKS = 2 * LONG_EVERY


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    study = study_from({"name": "short", "tenants": SLEEPERS, "mixes": ["pairs"], "until": None, "blocks": BLOCKS})
    return cotenant.run(study, device="cpu", out=tmp_path_factory.mktemp("runs"))


def rows(result, query):
    return cotenant.sql(query, [result.folder]).rows


def test_all_windows_are_carried_out_by_the_same_processes(result):
    assert rows(result, "SELECT count(*) FROM trials WHERE block >= 0") == ((BLOCKS * 3,),)
    assert rows(result, "SELECT count(DISTINCT pid) FROM tenants JOIN trials USING (trial) WHERE block >= 0") == ((2,),)


def test_no_request_extends_into_the_next_window(result):
    reached = rows(
        result,
        """
        SELECT trial, start_ns, max(done_ns), min(started_ns) FROM trials JOIN requests USING (trial)
        WHERE block >= 0 GROUP BY ALL ORDER BY start_ns
        """,
    )
    assert all(started >= start for _, start, _, started in reached)
    assert all(done <= following[1] for (_, _, done, _), following in pairwise(reached))


def test_each_tenant_has_several_requests_in_each_window(result):
    counted = rows(
        result,
        """
        SELECT count(*) FROM requests JOIN trials USING (trial) WHERE block >= 0 AND in_window GROUP BY trial, tenant
        """,
    )
    assert min(count for (count,) in counted) >= 5


def test_several_trials_are_committed_in_one_rename(result):
    chunks = [trials_in(path.name) for path in (result.folder / "trials").iterdir()]
    assert max(map(len, chunks)) >= 3
    assert sum(map(len, chunks)) == len({number for chunk in chunks for number in chunk})


def test_now_and_then_a_window_is_long_and_is_compared_with_the_short_ones(result):
    assert rows(result, f"SELECT count(*) FROM trials WHERE block >= 0 AND window_s > {LONG_FROM_S}") == ((2,),)
    assert result.summary.windows.ratio.n == 2


def test_the_run_reports_what_it_learnt_about_its_windows(result):
    [manifest] = result.manifests
    assert manifest["windows"]["alone_s"]["b"] >= 0.005
    assert manifest["switching"]["carry_over"]["windows"] > 0
    assert manifest["reached"]["blocks"] == BLOCKS
    sentences = [accuracy.sentence()[:23] for accuracy in result.summary.accuracy.values()]
    # On a busy machine no trial of the pair may be valid, and then nothing is said.
    valid = any(not tenant.cell.solo and tenant.trials_by_verdict.get("valid") for tenant in result.summary.tenants)
    assert sentences == (["Slowdowns are good to ±"] if valid else [])


def test_a_load_that_cannot_be_sustained_is_named_before_the_first_trial(tmp_path):
    events = []
    study = study_from(
        {
            "name": "over",
            "tenants": {"a": {"workload": "sleep", "params": {"ms": 30}, "load": "poisson(50)"}},
            "mixes": ["solo"],
            "window": "100ms",
            "lead": "0s",
            "blocks": 1,
        }
    )
    cotenant.run(study, device="cpu", out=tmp_path, listener=events.append)
    [noticed] = [event for event in events if isinstance(event, Noticed)]
    assert noticed.text.startswith("a can't keep up with poisson(50) even alone")


def test_the_next_dry_run_knows_the_precision_of_this_run(result):
    study = study_from({"name": "short", "tenants": SLEEPERS, "mixes": ["pairs"], "until": None, "blocks": 4 * BLOCKS})
    found = cotenant.dry_run(study, device="cpu", out=result.folder.parent.parent)
    [manifest] = result.manifests
    widest = manifest["reached"]["widest"]
    assert found.widest == (None if widest is None else pytest.approx(widest / 2))
    assert found.window_s == manifest["windows"]["window_s"]
    assert manifest["run"] in found.widest_from
