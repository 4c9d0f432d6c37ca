"""Commands to copy: what the shell and the parser of studies make of them."""

import shlex

import pytest

from cotenant.study.files import load_study
from cotenant.tenancy.run_command import RunLength, mixes_setting, run_command, ways_setting

STUDY = """
device: cpu
tenants:
  a: {workload: sleep}
  "on": {workload: sleep}
  my model: {workload: sleep}
"""


@pytest.fixture
def read(tmp_path):
    """The study as `cotenant run` reads it with these settings."""
    file = tmp_path / "my study.yaml"
    file.write_text(STUDY, encoding="utf-8")

    def reading(*settings):
        words = shlex.split(run_command(str(file), settings, device="cpu"))
        assert words[:5] == ["cotenant", "run", str(file), "--device", "cpu"]
        assert set(words[5::2]) == {"--set"}
        return load_study(words[2], words[6::2])

    return reading


def test_mixes_are_read_back_whatever_their_tenants_are_called(read):
    groups = [("a", "on"), ("on", "my model", "a"), ("a", "a")]
    study = read(mixes_setting(groups))
    assert {mix.members for mix in study.mix_list()} == set(groups)
    assert read(mixes_setting([("a", "on")], "solo")).mix_list()[-1].members == ("a", "on")


@pytest.mark.parametrize("way", ["processes", "mps[60, 40]", "mps[equal]", "green[50, 50]"])
def test_ways_to_share_are_read_back_with_their_shares(read, way):
    assert [str(sharing) for sharing in read(ways_setting([way, "threads"])).sharing] == [way, "threads"]


def test_a_run_gets_whole_minutes_that_are_twice_what_its_trials_take(read):
    assert RunLength(3, 3, 2.0).minutes == 1
    assert RunLength(3, 10, 2.0).minutes == 2
    study = read(*RunLength(3, 10, 2.0).settings)
    assert (study.blocks.max, study.budget_s) == (10, 120)
