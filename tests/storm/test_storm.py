"""A storm of 90 s in each run of CI; `make storm` runs a longer one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.storm import faulting

ROOT = Path(__file__).parents[2]
SECONDS = float(os.environ.get("COTENANT_STORM_S", "60"))
SEED = int(os.environ.get("COTENANT_STORM_SEED", "14"))

pytestmark = [pytest.mark.storm, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(SECONDS + 600)]


def test_any_bytes_in_any_file_end_in_the_same_answer_or_one_sentence():
    # In a separate interpreter: a fork of one that has run other tests inherits their locks without their threads.
    command = [sys.executable, "-m", "tests.storm.storming", str(2 / 3 * SECONDS), str(SEED), "0"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"(\d+) attempts, 0 findings", done.stdout)[1]) > 10


def test_any_failing_call_ends_in_the_same_answer_or_one_sentence(tmp_path):
    tally = faulting.start(SECONDS / 3, SEED, tmp_path)
    assert not tally.findings, "\n\n".join(tally.findings[:5])
    assert sum(tally.tried.values()) >= faulting.LEAST
