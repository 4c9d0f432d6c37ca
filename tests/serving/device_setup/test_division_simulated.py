"""A divided simulated GPU: costs are those of a tenant's part, parts work at the same time, --dry-run knows both."""

import asyncio

import pytest

from cotenant.errors import DeviceError, SharingUnavailable
from cotenant.planning.check import check_plan
from cotenant.serving.dry_run import simulate_contracts
from cotenant.serving.tenants_file import read_tenants
from cotenant.tenancy.document import write
from tests.serving.device_setup.division import ask, file, served
from tests.serving.device_setup.test_division_files import planned

A100 = "sim:a100-sxm4-40gb"
LARGE = {name: {"workload": "bert-large", "seq": 384, "software": "graphs"} for name in "ab"}


def costs(sharing, settings=None, **changes):
    async def scenario(service):
        return {name: one.costs.total_s for name, one in service.tenants.items()}

    return served(file(sharing, device=A100, settings=settings, **(LARGE | changes)), scenario)


def test_requests_take_as_long_as_at_the_plans_clock():
    assert costs(None, {"clock_mhz": 705})["a"] > 1.2 * costs(None)["a"]


def test_a_clock_that_the_device_does_not_have_is_refused():
    with pytest.raises(DeviceError, match="5000"):
        costs(None, {"clock_mhz": 5000})


def test_requests_take_as_long_as_on_their_part():
    whole = costs(None)["a"]
    mps, mig = costs({"mps": [70, 30]}), costs({"mig": ["4g.20gb", "2g.10gb"]})
    assert whole < mps["a"] < mps["b"]
    assert whole < mig["a"] < mig["b"]


def test_a_plans_slowdown_beside_neighbours_counts_unless_the_part_alone_is_slower():
    slow = {name: {**LARGE[name], "slowdown": 3.0} for name in LARGE}
    assert costs({"mps": [70, 30]}, **slow)["a"] == pytest.approx(3 * costs(None)["a"])
    alone = costs({"mig": ["4g.20gb", "1g.5gb"]})["b"]
    assert costs({"mig": ["4g.20gb", "1g.5gb"]}, b={**LARGE["b"], "slowdown": 1.1})["b"] == alone


def test_a_batch_costs_what_the_simulation_says_of_it():
    async def scenario(service):
        return {name: one.costs for name, one in service.tenants.items()}

    chat = {"workload": "gpt2", "mode": "generate", "tokens": 8, "at_once": 4}
    found = served(file(None, device=A100, a={**LARGE["a"], "at_once": 4}, b=chat), scenario)
    for curve in (found["a"].curve, found["b"].step_curve):
        assert curve.largest == 4
        assert 1 <= curve.factors[3] < 4, "cheaper than one after another"
    assert found["b"].step_curve.factors[3] < 1.2, "four sequences read the weights once"


@pytest.mark.parametrize(("sharing", "at_once"), [("mps", 2), (None, 1)])
def test_parts_work_at_the_same_time_and_turns_dont(sharing, at_once):
    async def scenario(service):
        asked = asyncio.ensure_future(ask(service, "a", "b"))
        while not service.in_flight:
            await asyncio.sleep(0)
        _, begun = service.under_way()
        await asked
        return begun.total()

    assert served(file(sharing, device=A100, **LARGE), scenario) == at_once


def test_status_states_how_the_device_is_shared():
    from cotenant.serving.http.operations import state_of

    async def scenario(service):
        return state_of(service)

    said = served(file({"mps": [60, 40]}, device=A100), scenario)
    assert (said["sharing"], said["basis"]) == ("mps[60, 40]", "simulated")


@pytest.mark.parametrize(
    ("device", "sharing", "sentence"),
    [
        ("sim:v100-sxm2-16gb", "mig", "lacks MIG"),
        (A100, {"mig": ["7g.40gb", "1g.5gb"]}, "can't hold the MIG instances 7g.40gb, 1g.5gb at once"),
        (A100, "pinned", "a simulated GPU can't be shared by `pinned`"),
        ("cpu", "mps", "`mps` is not available on a CPU"),
        ("cpu", {"pinned": [640, 640]}, "asks for 1280 cores"),
    ],
)
def test_what_the_device_cant_do_is_refused_at_the_start(device, sharing, sentence):
    with pytest.raises(SharingUnavailable, match=sentence):
        served(file(sharing, device=device))


def test_a_dry_run_agrees_with_the_check_of_the_plan(tmp_path):
    """Each asks for 70 % of its part: in turns, both together would ask for 93 % of the whole, and attain less."""
    path = tmp_path / "plan.yaml"
    path.write_text(write(planned("mps", (50.0, 50.0), runs={"workload": "bert-large", "seq": 384}, rate_rps=40.0)))
    assert simulate_contracts(read_tenants(path)).tenants == check_plan(path).tenants
