"""What the storm says of exported scripts: an executed name is found, and a sound plan is exported."""

import random

import pytest
import yaml

from cotenant.cli.main import main
from tests.storm.exporting import PLAN, executed, hostile


@pytest.mark.parametrize(("line", "found"), [("echo $(>{mark})", True), ("echo '$(>{mark})'", False)])
def test_a_name_that_a_script_executes_is_found(tmp_path, line, found):
    mark = tmp_path / "mark"
    (tmp_path / "up.sh").write_text(line.format(mark=mark))
    assert executed(tmp_path, mark) is found


def test_a_sound_plan_is_exported_and_its_scripts_execute_nothing(tmp_path, capsys):
    (tmp_path / "plan.yaml").write_text(PLAN)
    assert main(["plan", str(tmp_path / "plan.yaml"), "--export", str(tmp_path / "out"), "--for", "shell"]) == 0
    assert list((tmp_path / "out").rglob("*.sh"))
    assert not executed(tmp_path / "out", tmp_path / "mark")


@pytest.mark.parametrize("seed", range(20))
def test_hostile_plans_differ_from_a_sound_one_in_names_only(seed, tmp_path):
    changed = yaml.safe_load(hostile(random.Random(seed), tmp_path))
    assert changed != yaml.safe_load(PLAN)
    assert [len(device["tenants"]) for device in changed["devices"]] == [2]
