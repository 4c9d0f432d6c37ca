"""Plan files that are cut off, mistyped, duplicated or hostile: all problems with their lines, nothing written."""

import pytest

from cotenant.api.plan import Plan
from cotenant.cli.main import main
from cotenant.errors import StudyError
from cotenant.planning.check import check_plan
from cotenant.serving.tenants_file import planned_devices, read_tenants
from cotenant.tenancy.plan_document import read_plan

PLAN = """\
plan: 2
minimised: cost
devices:
- name: sim:t4
  sharing: mps
  tenants:
    bert:
      rate_rps: 20.0
      at_once: 4
      runs: {workload: bert-base, seq: 128}
      share: 60
      memory_bytes: 1000
      expected:
        p99: {limit_ms: 60.0, lower_ms: 1.0, estimate_ms: 2.0, upper_ms: 3.0}
    conv:
      rate_rps: 5.0
      runs: {workload: resnet50}
      share: 40
      memory_bytes: 1000
      expected:
        p99: {limit_ms: 60.0}
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "plan.yaml"


def problems(path, text):
    path.write_text(text)
    with pytest.raises(StudyError) as refused:
        read_plan(path)
    return [line.removeprefix(f"{path}:") for line in refused.value.problems]


def refusal(verb, path):
    """Why a verb refuses a file; None if it reads it."""
    try:
        verb(path)
    except StudyError as error:
        return error
    return None


def test_a_plan_is_read_and_written_without_loss(path):
    path.write_text(PLAN)
    plan = read_plan(path)
    assert str(plan.devices[0].way) == "mps[60, 40]"
    assert plan.devices[0].kind == "sim:t4"
    assert [(name, seat.tenant, seat.at_once) for _, name, seat in plan.seats()] == [
        ("bert", "bert", 4), ("conv", "conv", 1),
    ]  # fmt: skip
    path.write_text(plan.to_yaml())
    assert read_plan(path) == plan


def test_every_value_of_a_wrong_type_is_reported_with_its_line(path):
    text = PLAN
    for good, bad in (
        ("sharing: mps", "sharing: mpss"), ("rate_rps: 20.0", "rate_rps: fast"), ("at_once: 4", "at_once: 0"),
        ("rate_rps: 5.0", "rate_rps: .inf"), ("runs: {workload: resnet50}", "runs: resnet50"),
        ("share: 40", "share: 140"), ("p99: {limit_ms: 60.0}", "p99: {limit_ms: -1}"),
        ("minimised: cost", "minimized: cost"),
    ):  # fmt: skip
        assert good in text
        text = text.replace(good, bad)
    found = problems(path, text)
    assert [line.partition(" ")[0] for line in found] == ["2:", "5:", "8:", "9:", "16:", "17:", "18:", "21:"]
    assert 'minimized: unknown key; did you mean "minimised"?' in found[0]
    assert "sharing: expected one of" in found[1]
    assert 'devices.0.tenants.bert.rate_rps: expected a number of at least 0, not "fast"' in found[2]
    assert "tenants.conv.runs: expected a mapping" in found[5]


@pytest.mark.parametrize(
    ("good", "bad", "sentence"),
    [
        ("      runs: {workload: resnet50}\n", "", "15: devices.0.tenants.conv: runs is missing"),
        ("share: 60", "share: 3g.20gb", "gives bert the instance 3g.20gb, but its sharing isn't mig"),
        ("sharing: mps", "sharing: mig", "gives bert 60 %, but instances of mig have names such as 3g.20gb"),
        ("p99: {limit_ms: 60.0}", "p999x: {limit_ms: 60.0}", "tenants.conv"),
        ("memory_bytes: 1000", "memory_bytes: 1.5", "memory_bytes: expected a whole number of at least 0, not 1.5"),
        ("rate_rps: 5.0", "rate_rps: .nan", "16: devices.0.tenants.conv.rate_rps: expected a number of at least 0"),
        ("    conv:", "    bert:", "bert"),
        ("    conv:", '    "a/../b":', "a name can't contain any of"),
        ("    conv:", '    "a\\e[2Jb":', "contains control characters"),
        ("plan: 2", "plan: 3", "plan: "),
    ],
)  # fmt: skip
def test_a_problem_is_one_sentence(path, good, bad, sentence):
    assert good in PLAN
    found = problems(path, PLAN.replace(good, bad))
    assert sentence in found[0]
    assert all(line.isprintable() for line in found)


def test_names_of_devices_and_of_tenants_differ(path):
    device = PLAN.partition("devices:\n")[2]
    assert "device sim:t4 occurs 2 times" in problems(path, PLAN + device)[0]
    assert "tenant bert occurs 2 times" in problems(path, PLAN + device.replace("sim:t4", "sim:l4"))[0]


@pytest.mark.parametrize("devices", ["[]", "null", "{}", "[{name: cpu, tenants: {}}]", "[cpu]"])
def test_a_plan_without_devices_or_tenants_is_refused(path, devices):
    (sentence,) = problems(path, f"plan: 2\ndevices: {devices}\n")
    assert "expected" in sentence or "missing" in sentence


@pytest.mark.parametrize("length", range(0, len(PLAN), 23))
def test_a_truncated_plan_is_read_or_refused_by_every_verb_and_nothing_is_written(path, length):
    path.write_text(PLAN[:length])
    for verb in (read_plan, check_plan, Plan.read, read_tenants, planned_devices):
        error = refusal(verb, path)
        if error is None:
            assert verb is planned_devices or read_plan(path).devices
        else:
            assert str(path) in str(error)
    assert list(path.parent.iterdir()) == [path]


def test_a_plan_of_the_earlier_version_and_what_is_not_text_are_refused(path):
    path.write_text(PLAN.replace("plan: 2", "plan: 1"))
    with pytest.raises(StudyError, match="counts items"):
        read_plan(path)
    path.write_bytes(b"\xff\xfe\0plan")
    with pytest.raises(StudyError, match="not UTF-8"):
        read_plan(path)
    with pytest.raises(StudyError, match="can't be read"):
        read_plan(path.parent / "none.yaml")


def test_a_command_prints_all_problems_and_writes_nothing(path, capsys):
    path.write_text(PLAN.replace("at_once: 4", "at_once: many").replace("share: 40", "share: none at all\n      x: 1"))
    for command in (["--check", str(path)], [str(path), "--export", str(path.parent / "out")]):
        assert main(["plan", *command]) == 1
        printed = capsys.readouterr().err
        assert "at_once: expected a whole number" in printed
        assert "x: unknown key" in printed
        assert "Traceback" not in printed
    assert list(path.parent.iterdir()) == [path]
