"""A storm in each run of CI; `make storm` makes a longer one."""

import os

import pytest

from tests.storm import storming

SECONDS = float(os.environ.get("COTENANT_STORM_S", "90"))


@pytest.mark.storm
@pytest.mark.timeout(SECONDS + 240)
def test_any_bytes_in_any_file_end_in_the_same_answer_or_one_sentence():
    storming._import_everything()
    tally = storming.storm(SECONDS, seed=int(os.environ.get("COTENANT_STORM_SEED", "14")))
    assert sum(tally.tried.values()) > 20
    assert not tally.findings, "\n\n".join(tally.findings[:5])
