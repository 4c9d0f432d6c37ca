"""Constructed cases are explained correctly: limits, contention, the parts of the slowdown, the aggressor."""

import json
import math
from dataclasses import replace

import pytest

from cotenant.analyse.explanation.explanation import circumstances, explain_run
from cotenant.analyse.explanation.sentences import explanation_sentences
from cotenant.analyse.sharing.evidence import Peaks
from cotenant.tenancy.records import ModelErrorRecord
from tests.analyse.explanation.scenes_of_tenants import COMPUTE, MEMORY, PEAKS, Beside, Scene, Tenant


def explained(scene, peaks=PEAKS):
    return explain_run(scene.evidence, peaks)


def text(found):
    return " ".join(explanation_sentences(found))


def bound(found):
    return {one.of: one.bound for one in found.tenants}


def test_two_memory_bound_tenants_lack_memory_bandwidth():
    scene = Scene(Tenant("a", **MEMORY), Tenant("b", **MEMORY)).alone(clock=3000)
    found = explained(scene.mix({"a": Beside(cpu=1.5), "b": Beside(cpu=1.5)}, clock=3000))
    assert bound(found) == {"a": "memory bandwidth", "b": "memory bandwidth"}
    story = found.mixes[0]
    assert {fight.resource for fight in story.fights} == {"memory bandwidth"}
    assert all(fight.sure for fight in story.fights)
    assert story.bandwidth_wanted == pytest.approx(1.5, rel=0.02)
    assert found.splits[0].parts["memory and cache"].est == pytest.approx(1.5, rel=0.01)
    assert found.splits[0].parts["fewer cores"].est == pytest.approx(1, rel=0.01)
    assert "its tenants lack memory bandwidth; alone they use 2.0 of 2 cores and 150 % of the memory bandwidth" in text(
        found
    )


def test_two_compute_bound_tenants_on_too_few_cores_lack_cores():
    wide = COMPUTE | {"cores": 2.0, "threads": 2, "flops": 0.9e9}
    scene = Scene(Tenant("a", **wide), Tenant("b", **wide)).alone()
    found = explained(scene.mix({"a": Beside(slicing=2.0), "b": Beside(slicing=2.0)}))
    assert bound(found) == {"a": "compute", "b": "compute"}
    story = found.mixes[0]
    assert {fight.resource for fight in story.fights} == {"cores"}
    assert story.cores_wanted == pytest.approx(4, rel=0.01)
    assert story.worth == "open"
    assert found.splits[0].parts["fewer cores"].est == pytest.approx(2, rel=0.01)
    assert "its tenants lack cores; alone they use 4.0 of 2 cores" in text(found)


def test_one_of_each_share_well_and_are_worth_it():
    scene = Scene(Tenant("gemm", **COMPUTE), Tenant("triad", **MEMORY)).alone(clock=3000)
    found = explained(scene.mix({"gemm": Beside(cpu=1.005), "triad": Beside(cpu=1.01)}, clock=3000))
    assert bound(found) == {"gemm": "compute", "triad": "memory bandwidth"}
    story = found.mixes[0]
    assert {fight.resource for fight in story.fights} == {"nothing"}
    assert story.worth == "yes"
    assert "no tenant is shown to be slowed down" in text(found)
    assert "is worth it: STP 1.9" in text(found)


def test_a_falling_clock_is_distinguished_from_neighbours():
    scene = Scene(Tenant("a", **COMPUTE), Tenant("b", **COMPUTE)).alone(clock=3000)
    found = explained(scene.mix({"a": Beside(), "b": Beside()}, clock=2500))
    split = found.splits[0]
    assert split.parts["clock"].est == pytest.approx(1.2, rel=0.01)
    assert split.parts["memory and cache"].est == pytest.approx(1, rel=0.01)
    assert {fight.resource for fight in found.mixes[0].fights} == {"clock"}
    assert [one.kind for one in found.circumstances] == ["clock"]
    assert "The clock fell from 3,000 MHz alone to 2,500 MHz in company (-17 %)" in text(found)


def test_an_overloaded_open_loop_is_named():
    scene = Scene(Tenant("a", **COMPUTE), load="poisson(120)", rate_rps=120.0)
    found = explained(scene.alone(wait=20, unfinished=25))
    assert [one.kind for one in found.circumstances] == ["overload"]
    assert "a is overloaded alone at poisson(120): 120 requests/s offered and 99.9 served" in text(found)
    assert "20 % of requests never completed, 95 % of its latency is waiting" in text(found)


def test_a_tenant_that_serves_what_arrives_is_not_overloaded():
    """An engine that serves several requests at once is busy all the time, and the last of a window never complete."""
    scene = Scene(Tenant("a", ms=3000.0), load="poisson(1)", rate_rps=1.0)
    scene.alone(unfinished=2)
    evidence = [
        replace(item, seen=replace(item.seen, throughput_rps=0.993, window_s=102.0), rate_rps=1.0, load="poisson(1)")
        for item in scene.evidence
    ]
    assert list(circumstances(evidence)) == []


def shares_scene(kept_with=("mps[60, 40]", "mps[30, 70]")):
    """Two tenants with objectives under two divisions of the device; `a` works for a tenth of the time."""
    ms = {"ms": 2.0, "slo_ms": 20.0, "flops": 1e7, "bytes": 1e6}
    scene = Scene(Tenant("a", **ms), Tenant("b", **ms), load="poisson(50)", rate_rps=50.0).alone()
    for sharing in ("mps[60, 40]", "mps[30, 70]"):
        slow = 1.0 if sharing in kept_with else 30.0
        scene.mix({"a": Beside(slicing=slow), "b": Beside()}, sharing)
    return explained(scene)


def test_a_tenant_that_needs_less_than_its_share_is_told_so():
    (first, second) = shares_scene().shares
    assert first.startswith("a doesn't need 60 % of the device under mps: with 30 % it keeps its objective (1.0")
    assert first.endswith("and works for 10 % of the time: measure it with 15 %.")
    assert second.startswith("b doesn't need 70 %")


def test_a_tenant_that_misses_its_objective_with_less_needs_its_share():
    assert not any(sentence.startswith("a ") for sentence in shares_scene(kept_with=("mps[60, 40]",)).shares)


def test_queueing_is_distinguished_from_slower_service():
    scene = Scene(Tenant("a", **COMPUTE), Tenant("b", **COMPUTE), load="poisson(60)", rate_rps=60.0).alone(wait=0.5)
    found = explained(scene.mix({"a": Beside(slicing=1.2), "b": Beside(slicing=1.2)}, wait=2.0))
    split = found.splits[0]
    assert split.parts["queueing"].est == pytest.approx(2, rel=0.01)
    assert split.parts["fewer cores"].est == pytest.approx(1.2, rel=0.01)
    assert split.total.est == pytest.approx(2.4, rel=0.01)
    assert {fight.resource for fight in found.mixes[0].fights} == {"queue"}


def test_a_noisy_neighbour_outside_the_study_is_named():
    loud = [0.4 if block % 2 else 0.01 for block in range(6)]
    scene = Scene(Tenant("a", **COMPUTE), Tenant("b", **COMPUTE)).alone(foreign=0.01)
    found = explained(scene.mix({"a": Beside(slicing=1.6), "b": Beside(slicing=1.6)}, foreign=loud))
    assert [one.kind for one in found.circumstances] == ["noisy neighbour"]
    assert "Processes outside the study took 40 % of the device in 3 of 18 trials" in text(found)
    assert explanation_sentences(found)[0].startswith("Processes outside the study")


def test_a_tenant_that_others_starve_is_not_called_idle():
    found = explained(Scene(Tenant("a", **MEMORY), Tenant("b", cores=0.01)).alone(foreign=0.7, slicing=3.0))
    assert bound(found) == {"a": "memory bandwidth", "b": "waiting elsewhere"}
    assert "others left it 0.33 cores, so judged by its CPU time alone: it reaches" in text(found)
    assert "75 % of the memory bandwidth" in text(found)


def test_peaks_measured_beside_other_work_prove_nothing():
    disturbed = replace(PEAKS, bytes_per_s=5e9, undisturbed=False)
    found = explained(Scene(Tenant("a", **MEMORY)).alone(), disturbed)
    assert (found.tenants[0].bound, found.tenants[0].sure) == ("memory bandwidth", "unclear")
    assert "measure them again on a quiet machine" in text(found)


def test_a_tenant_that_waits_for_its_load_is_reported_with_its_limit_while_serving():
    found = explained(Scene(Tenant("a", **COMPUTE), load="poisson(20)", rate_rps=20.0).alone())
    assert bound(found) == {"a": "waiting for the load"}
    assert found.tenants[0].while_serving == "compute"
    assert "it is idle for 80 % of the time" in text(found)


@pytest.mark.parametrize(
    ("tenant", "expected"),
    [
        ({"flops": 0.0, "bytes": 0.0, "cores": 0.01}, "waiting elsewhere"),
        ({"flops": 1e6, "bytes": 1e6}, "launch or host overhead"),
        ({"flops": 1e7, "bytes": 0.5e9, "working_set": 1 << 19}, "cache"),
        ({"flops": None, "bytes": None}, "compute"),
        (COMPUTE, "compute"),
        (MEMORY, "memory bandwidth"),
    ],
)
def test_what_binds_a_tenant_alone(tenant, expected):
    assert bound(explained(Scene(Tenant("a", **tenant)).alone())) == {"a": expected}


def test_without_peaks_the_limit_is_unknown():
    found = explained(Scene(Tenant("a", **COMPUTE)).alone(), Peaks())
    assert bound(found) == {"a": "unknown"}
    assert "This run has no roofline" in text(found)


def test_a_tenant_whose_working_set_is_evicted_lacks_the_cache():
    scene = Scene(Tenant("cache", ms=10, flops=1e7, bytes=0.5e9, working_set=1 << 20), Tenant("triad", **MEMORY))
    scene.alone(clock=3000)
    found = explained(scene.mix({"cache": Beside(cpu=1.4), "triad": Beside(cpu=1.02)}, clock=3000))
    fights = {fight.tenant: fight.resource for fight in found.mixes[0].fights}
    assert fights["cache"] == "cache"
    assert (found.mixes[0].aggressor, found.mixes[0].victim) == ("triad", "cache")
    assert "triad is the aggressor and cache the victim: its slowdown is 1.37x" in text(found)


def simulated(scene, slowdown):
    """The same evidence as if a model with this error had computed it."""
    error = ModelErrorRecord("kind", True, "", time=(0.9, 1.1), slowdown=slowdown, tail=(0.9, 1.1))
    scene.evidence = [replace(one, seen=replace(one.seen, simulated=True, model_error=error)) for one in scene.evidence]
    return scene


def test_simulated_slowdowns_and_their_ratio_carry_the_simulations_error():
    def scene():
        both = Scene(Tenant("a", **COMPUTE), Tenant("b", **COMPUTE), noise=1e-5).alone()
        return both.mix({"a": Beside(cpu=1.5), "b": Beside(cpu=1.2)})

    (story,) = explained(simulated(scene(), (0.95, 1.05))).mixes
    assert (story.aggressor, story.victim) == ("b", "a")
    assert story.imbalance.lo == pytest.approx(1.25 * 0.95**1.41, rel=0.01)
    unsure = explained(simulated(scene(), (0.8, 1.3)))
    assert unsure.mixes[0].aggressor is None
    assert "takes 1.50x [1.20, 1.95] its time alone: more CPU time 1.50x (" in text(unsure)


def test_even_pairs_have_no_aggressor():
    scene = Scene(Tenant("a", **MEMORY), Tenant("b", **MEMORY)).alone()
    found = explained(scene.mix({"a": Beside(cpu=1.5), "b": Beside(cpu=1.5)}))
    assert found.mixes[0].aggressor is None
    assert "aggressor" not in text(found)


def test_a_difference_that_two_decimals_do_not_show_makes_no_aggressor():
    scene = Scene(Tenant("a", **COMPUTE), Tenant("b", **COMPUTE), noise=1e-5).alone()
    found = explained(scene.mix({"a": Beside(cpu=1.503), "b": Beside(cpu=1.5)}))
    assert found.mixes[0].imbalance.lo > 1
    assert found.mixes[0].aggressor is None
    assert "aggressor" not in text(found)


def test_without_a_clock_sensor_memory_and_clock_are_indistinguishable():
    scene = Scene(Tenant("a", **MEMORY), Tenant("b", **MEMORY)).alone()
    found = explained(scene.mix({"a": Beside(cpu=1.5), "b": Beside(cpu=1.5)}))
    assert "more CPU time" in found.splits[0].parts
    assert not any(fight.sure for fight in found.mixes[0].fights)
    assert "There is no clock sensor" in text(found)


def test_parts_multiply_to_the_slowdown():
    scene = Scene(Tenant("a", **MEMORY), Tenant("b", **COMPUTE)).alone(clock=3000, wait=0.1)
    found = explained(
        scene.mix({"a": Beside(cpu=1.3, slicing=1.2), "b": Beside(cpu=1.1, slicing=1.4)}, clock=2800, wait=0.6)
    )
    for split in found.splits:
        product = math.prod(part.est for part in split.parts.values())
        assert product == pytest.approx(split.total.est, rel=1e-9)
        assert split.residual.est == pytest.approx(1, abs=1e-9)


def test_a_mix_that_misses_an_objective_is_not_worth_it():
    scene = Scene(Tenant("a", slo_ms=11, **MEMORY), Tenant("b", **COMPUTE)).alone()
    found = explained(scene.mix({"a": Beside(cpu=1.3), "b": Beside()}))
    assert found.mixes[0].worth == "no"
    assert "is not worth it: a misses its objective" in text(found)


def test_a_mix_that_does_less_than_taking_turns_is_not_worth_it():
    scene = Scene(Tenant("a", **MEMORY), Tenant("b", **MEMORY)).alone()
    found = explained(scene.mix({"a": Beside(slicing=2.3), "b": Beside(slicing=2.3)}))
    assert found.mixes[0].worth == "no"
    assert "less than the 1 of taking turns" in text(found)


def test_copies_share_the_solo_of_their_original():
    scene = Scene(Tenant("a", **MEMORY)).alone()
    found = explained(scene.mix({"a#1": Beside(cpu=1.5), "a#2": Beside(cpu=1.5)}))
    assert [split.total.est for split in found.splits] == [pytest.approx(1.5, rel=0.01)] * 2


def test_one_block_is_explained_without_claims():
    scene = Scene(Tenant("a", **MEMORY), Tenant("b", **MEMORY), blocks=1).alone()
    found = explained(scene.mix({"a": Beside(cpu=1.5), "b": Beside(cpu=1.5)}))
    assert found.mixes[0].worth == "open"
    assert "no slowdown is known precisely enough" in text(found)


def test_the_longest_stage_is_named():
    found = explained(Scene(Tenant("a", **COMPUTE, stages={"prefill": 0.2, "decode": 0.8})).alone())
    assert "80 % of it in `decode`" in text(found)


def test_everything_is_plain_data():
    scene = Scene(Tenant("a", **MEMORY), Tenant("b", **COMPUTE)).alone()
    found = explained(scene.mix({"a": Beside(cpu=1.3), "b": Beside()})).to_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
