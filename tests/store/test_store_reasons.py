"""The reason shown for a failed check."""

import pytest

from cotenant.store.folder import RunFolder
from cotenant.store.reading import open_runs
from tests.store.synthetic import trial


@pytest.fixture
def run(tmp_path):
    return RunFolder.create(tmp_path / "r", {"run": "r"})


def latest_reasons(run):
    with open_runs([run.path]) as runs:
        return runs.latest_reasons()


def test_the_reason_is_that_of_the_latest_trial(run):
    run.commit(trial(0, failed_checks=["steady"], reasons=["early"], started_utc="2026-01-01T00:00:02"))
    run.commit(trial(1, failed_checks=["quiet_machine", "steady"], reasons=["loud", "late"]))
    run.commit(trial(2))
    assert latest_reasons(run) == {"steady": "early", "quiet_machine": "loud"}
    run.commit(trial(3, failed_checks=["steady"], reasons=["later"], started_utc="2026-01-01T00:00:03"))
    assert latest_reasons(run)["steady"] == "later"


def test_ambiguous_reasons_are_left_out(run):
    run.commit(trial(0, failed_checks=["steady", "no_drift"], reasons=["of a", "of b", "drifts"]))
    assert latest_reasons(run) == {}


def test_a_run_without_failures_has_no_reasons(run):
    run.commit(trial(0))
    assert latest_reasons(run) == {}
