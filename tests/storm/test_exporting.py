"""What the storm says of exported scripts: an executed name is found, and a sound plan is exported."""

import random

import pytest
import yaml

from cotenant.cli.main import main
from tests.storm.exporting import GENERATING, PLAN, TOOLS, TURNS, executed, hostile


@pytest.mark.parametrize(("line", "found"), [("echo $(>{mark})", True), ("echo '$(>{mark})'", False)])
def test_a_name_that_a_script_executes_is_found(tmp_path, line, found):
    mark = tmp_path / "mark"
    (tmp_path / "up.sh").write_text(line.format(mark=mark))
    assert executed(tmp_path, mark) is found


def test_every_tool_can_express_a_sound_plan_and_its_scripts_execute_nothing(tmp_path, capsys):
    for tool in TOOLS:
        codes = []
        for number, text in enumerate((PLAN, GENERATING, TURNS)):
            (tmp_path / "plan.yaml").write_text(text)
            out = tmp_path / f"{tool}-{number}"
            codes.append(main(["plan", str(tmp_path / "plan.yaml"), "--export", str(out), "--for", tool]))
        assert 0 in codes, tool
    assert list(tmp_path.rglob("*.sh"))
    assert not executed(tmp_path, tmp_path / "mark")


@pytest.mark.parametrize("seed", range(20))
def test_hostile_plans_differ_from_a_sound_one_in_names_only(seed, tmp_path):
    changed = yaml.safe_load(hostile(random.Random(seed), tmp_path))
    sound = [yaml.safe_load(text) for text in (PLAN, GENERATING, TURNS)]
    assert changed not in sound
    counts = [[len(device["tenants"]) for device in plan["devices"]] for plan in (changed, *sound)]
    assert counts[0] in counts[1:]
