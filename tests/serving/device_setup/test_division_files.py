"""The `sharing` of a plan or a tenants file: read as `run` reads it, a lane for each part, contradictions refused."""

import pytest
from pydantic import ValidationError

from cotenant.errors import StudyError
from cotenant.serving.tenants_file import TenantsFile, lanes_of, read_tenants
from cotenant.tenancy.document import write
from tests.serving.device_setup.division import file


def planned(sharing, shares, **changes):
    """A plan for two tenants."""
    tenants = {
        name: {
            "tenant": name,
            "rate_rps": 20.0,
            "at_once": 1,
            "runs": {"workload": "bert-base-mini", "seq": 32},
            "software": "eager",
            **({} if share is None else {"share": share}),
            "slowdown": 1.5,
            "expected": {"p99": {"limit_ms": 60.0, "lower_ms": 1.0, "estimate_ms": 2.0, "upper_ms": 3.0}},
            **changes,
        }
        for name, share in zip(("a", "b"), shares, strict=True)
    }
    device = {"name": "sim:a100-sxm4-40gb", "kind": "sim:a100-sxm4-40gb", "sharing": sharing, "tenants": tenants}
    return {"plan": 2, "devices": [device]}


def read(tmp_path, plan):
    path = tmp_path / "plan.yaml"
    path.write_text(write(plan))
    return read_tenants(path)


@pytest.mark.parametrize(
    ("sharing", "shares", "carried_out"),
    [
        ("mps", (60.0, 40.0), "mps[60, 40]"),
        ("mps", (None, None), "mps"),
        ("mig", ("3g.20gb", "4g.20gb"), "mig[3g.20gb, 4g.20gb]"),
        ("pinned", (None, None), "pinned"),
        ("processes", (None, None), "processes"),
    ],
)
def test_a_plan_that_splits_its_device_gives_each_tenant_a_lane(tmp_path, sharing, shares, carried_out):
    found = read(tmp_path, planned(sharing, shares))
    assert str(found.sharing) == carried_out
    assert [lane.tenants for lane in lanes_of(found)] == [("a",), ("b",)]
    assert [one.share for one in found.tenants.values()] == [None, None], "each has its lane to itself"
    assert [one.slowdown for one in found.tenants.values()] == [1.5, 1.5]


def test_a_share_of_one_tenant_is_not_dropped_silently(tmp_path):
    with pytest.raises(StudyError, match=r"gives b no share of sim:a100-sxm4-40gb, but gives the others one"):
        read(tmp_path, planned("mps", (60.0, None)))


def test_the_clock_and_power_limit_of_a_plan_are_carried_out(tmp_path):
    plan = planned("mps", (60.0, 40.0))
    assert read(tmp_path, plan).settings == {}
    plan["devices"][0] |= {"clock_mhz": 1110.0, "power_w": 250.0}
    assert read(tmp_path, plan).settings == {"clock_mhz": 1110.0, "power_w": 250.0}


@pytest.mark.parametrize("sharing", ["alone", "scheduled"])
def test_without_a_split_requests_take_turns_in_one_lane(tmp_path, sharing):
    found = read(tmp_path, planned(sharing, (60.0, 40.0)))
    assert found.sharing is None
    assert [lane.tenants for lane in lanes_of(found)] == [("a", "b")]
    assert [one.share for one in found.tenants.values()] == [60.0, 40.0]


def test_an_instance_without_mig_and_an_unknown_sharing_are_refused(tmp_path):
    with pytest.raises(StudyError, match=r"gives a the instance 3g.20gb, but its sharing isn't mig"):
        read(tmp_path, planned("processes", ("3g.20gb", "3g.20gb")))
    with pytest.raises(StudyError) as refused:
        read(tmp_path, planned("mpss", (None, None)))
    assert 'did you mean "mps"?' in str(refused.value.problems)


@pytest.mark.parametrize(
    ("sharing", "changes", "sentence"),
    [
        ({"mps": [60]}, {}, "names 1 shares for 2 tenants"),
        ("mps", {"b": {"group": "x"}}, "tenants.b: under sharing: mps each tenant has its own worker"),
    ],
)
def test_contradictions_are_refused(sharing, changes, sentence):
    with pytest.raises(ValidationError, match=sentence):
        file(sharing, **changes)


def test_a_file_with_parts_can_be_sent_to_another_node():
    wanted = file({"mig": ["3g.20gb", "4g.20gb"]})
    assert TenantsFile.model_validate(wanted.model_dump(mode="json")) == wanted


def test_decoders_with_parts_of_a_device_divide_the_memory_for_caches():
    decoder = {"workload": "gpt2-mini", "mode": "generate", "slo": {"ttft": "60s"}}
    wanted = file("mps", "a", "b", "c", a=decoder, b=decoder).model_copy(update={"cache_memory": 800})
    assert [wanted.cache_bytes(lane) for lane in lanes_of(wanted)] == [400] * 3
