"""What would settle an open question, and the command for it."""

import pytest

from cotenant.analyse.decision.remedies import ended, relief, what_would_tell
from cotenant.analyse.sharing.slo import queries_needed
from tests.analyse.decision.ways import choice, objective, standing, way


def opened(option, because):
    return what_would_tell(choice(option, verdict="open", because=because))


def timed(name, shared=None, *, seconds=30.0, **more):
    return standing(name, shared, measured_s=seconds, **more)


def test_more_requests_until_the_neediest_objective_is_decided():
    near, far = (objective(answer="open", more_s=seconds) for seconds in (25.0, 95.0))
    tenants = [timed("a", near), timed("b", far), timed("c", objective(more_s=900.0))]
    found = opened(way("mps", standings=tenants, blocks=3), "too few requests")
    # A trial lasts 10 s: 10 more beside the 3, each with 3 tenants alone as well, and twice the time for it.
    assert found == (
        "measure a + b + c for 1 min 35 s longer: cotenant run FILE --set 'mixes=[{groups: {a-b-c: [a, b, c]}}]' "
        "--set 'sharing=[mps]' --set blocks=13 --set budget=18min"
    )
    simulated = opened(way("mps", standings=tenants, blocks=3, simulated=True), "too few requests")
    assert simulated.startswith("simulate a + b + c for 1 min 35 s longer: cotenant run FILE --device cpu --set ")


def test_served_traffic_is_served_longer():
    tenants = [timed("a", objective(answer="open", more_s=21.0)), timed("b")]
    for sharing in ("scheduled", "mps"):
        found = opened(way(sharing, standings=tenants, simulated=True, load="served"), "too few requests")
        assert found == "serve a + b for 21 s longer, under the same load"
    driven = opened(way("scheduled", standings=tenants, simulated=True, load="own"), "too few requests")
    assert driven.startswith("simulate a + b for 21 s longer: cotenant run FILE --device cpu --set ")
    assert "--set 'sharing=[scheduled]'" in driven


def test_an_objective_inside_its_interval_has_to_change():
    tenants = [timed("a", objective(answer="open"))]
    assert opened(way(standings=tenants), "too few requests").startswith("change the objective")


def test_what_a_simulation_leaves_open_is_measured():
    tenants = [timed("a", objective(answer="open"), served_rps=10.0), timed("b", objective(answer="open", more_s=5.0))]
    found = opened(way("mps", standings=tenants, blocks=3, simulated=True), "too few requests")
    blocks = -(-queries_needed(0.9, 2) // 100)  # trials of 10 s at 10 requests/s
    assert blocks == 1
    assert found.startswith("measure it on the real device, at most 3 min: cotenant run FILE --device cuda:0 --set ")
    assert found.endswith("--set blocks=3 --set budget=3min")
    slow = [timed("a", objective(answer="open"), served_rps=0.5), timed("b")]
    found = opened(way("mps", standings=slow, blocks=3, simulated=True), "too few requests")
    assert f"--set blocks={-(-queries_needed(0.9, 2) // 5)} " in found


def test_blocks_decide_about_work():
    tenants = [timed("a"), timed("b")]
    found = opened(way("mps", standings=tenants, blocks=3), "too few blocks")
    assert found.startswith("run more blocks, at most 40 min: cotenant run FILE --set ")
    assert found.endswith("--set blocks=40 --set budget=40min")
    found = opened(way("mps", standings=tenants, blocks=3, simulated=True), "too few blocks")
    assert found.startswith("measure it on the real device, at most 3 min: ")
    assert "--set blocks=3 " in found


@pytest.mark.parametrize(("seconds", "blocks", "minutes"), [(30.0, 3, 40), (3.0, 3, 4), (30.0, 0, 120)])
def test_a_trial_lasts_a_second_at_least(seconds, blocks, minutes):
    found = opened(
        way(standings=[timed("a", seconds=seconds), timed("b", seconds=1.0)], blocks=blocks), "too few blocks"
    )
    assert found.endswith(f"budget={minutes}min")


def test_copies_names_and_shares_in_the_command():
    copies = [timed("gpt#1"), timed("gpt#2")]
    found = opened(way("mps[25, 75]", standings=copies, mix="2 x gpt"), "too few blocks")
    assert "'mixes=[{copies: {gpt: [2]}}]' --set 'sharing=[{mps: [25, 75]}]'" in found
    odd = [timed("on"), timed("my model")]
    found = opened(way("threads", standings=odd, mix="on + my model"), "too few blocks")
    assert """'mixes=[{groups: {on-my-model: ["on", "my model"]}}]'""" in found


def test_what_to_change_so_that_a_trial_passes():
    def found(*failed, **more):
        return opened(way(valid=0, failed=failed, **more), "no trial passed")

    assert found() == "see what failed with --all, then run again"
    assert found("copies_equal") == "see what failed with --all, then run again"
    assert found("no_steal", "quiet_machine") == "free the device of other work, then run again"
    assert found("steady", "on_schedule") == (
        "lower the rates and let the device warm up, or fix its clock, then run again"
    )
    behind = timed("chat", rate_rps=100.0, served_rps=50.0)
    assert found("steady", standings=[behind, timed("b")]) == "lower chat to 40/s"


def test_a_mix_that_did_too_much_is_run_again():
    found = opened(way(work=2.5), "disturbed")
    assert found.startswith("run again on a quiet machine")
    assert ended(found) == f"{found}."
    assert ended("run more: cotenant run FILE") == "run more: cotenant run FILE"


@pytest.mark.parametrize(
    ("served", "rate"),
    [(0.0, "0"), (50.0, "40"), (20.0, "19"), (30.0, "20"), (200.0, "190"), (1000.0, "900"), (0.5, "0.4"), (10.0, "9"),
     (1.1, "1"), (1.6, "1.5"), (2.2, "2")],
)  # fmt: skip
def test_a_rate_to_lower_to_is_round_and_a_little_less(served, rate):
    tenant = standing("chat", served_rps=served, served_alone_rps=7.0)
    assert relief([tenant], alone=False) == f"lower chat to {rate}/s"
    assert relief([tenant], alone=True) == "lower chat to 6/s"


def test_relief_names_three_and_other_software_only_where_it_helps():
    assert relief([], alone=True) == ""
    tenants = [standing(name, served_rps=10.0) for name in "abcd"]
    assert relief(tenants, alone=False) == "lower a to 9/s, b to 9/s and c to 9/s"
    for generates, software, better in ((True, "eager", True), (True, "vllm", False), (False, "eager", False)):
        tenant = standing("a", served_rps=10.0, generates=generates, software=software)
        assert relief([tenant], alone=False).endswith(", or use software: vllm") is better
