"""A storm in each run of CI, 90 s of it; `make storm` makes a longer one."""

import os

import pytest

from tests.storm import attempting, faulting, storming

SECONDS = float(os.environ.get("COTENANT_STORM_S", "90"))
SEED = int(os.environ.get("COTENANT_STORM_SEED", "14"))

pytestmark = [pytest.mark.storm, pytest.mark.timeout(SECONDS + 600)]


def test_any_bytes_in_any_file_end_in_the_same_answer_or_one_sentence():
    attempting.import_everything()
    tally = storming.storm(2 / 3 * SECONDS, SEED)
    assert sum(tally.tried.values()) > 20
    assert not tally.findings, "\n\n".join(tally.findings[:5])


def test_any_call_may_fail_and_the_end_is_the_same_answer_or_one_sentence(tmp_path):
    tally = faulting.start(SECONDS / 3, SEED, tmp_path)
    assert not tally.findings, "\n\n".join(tally.findings[:5])
    assert sum(tally.tried.values()) >= faulting.LEAST
