"""An engine beside neighbours: steps through the law of contention, and runs of studies with `software: vllm`."""

import json

import numpy as np
import pytest

from cotenant.api.records import sql
from cotenant.api.run import run
from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.measure.simulated.model_error import model_error
from cotenant.prediction.contention.layout import TURNS, whole_of
from cotenant.prediction.contention.simulation import Player, simulate
from cotenant.prediction.contention.trace import plain_trace
from cotenant.prediction.engines.alone import serve, step_ns
from cotenant.prediction.engines.continuous_batching import Batching, EngineSettings
from cotenant.prediction.engines.engine_profile import ENGINES
from cotenant.prediction.engines.layer_tables import EnginePart
from cotenant.prediction.engines.on_gpu import Engines
from cotenant.prediction.engines.step import StepTimes
from cotenant.prediction.engines.tenant import EngineLoad
from cotenant.prediction.simulated_gpu import Controls
from cotenant.study.files import study_from_text
from cotenant.tenancy.nouns import ALONE
from cotenant.tenancy.sharing import Sharing
from cotenant.workloads import find
from cotenant.workloads.protocol import WorkloadSpec

H100 = find_gpu("h100-sxm5-80gb")
SPEC = WorkloadSpec(
    name="llama-3.2-3b", mode="generate", software="vllm", dtype="bfloat16", seq=256, tokens=64
)  # fmt: skip
WINDOW_NS = 4e9


def engine(**load):
    engines = Engines(H100, lambda name: find(name).entry.config)
    given = EngineLoad(window_end_ns=WINDOW_NS, memory_bytes=60 * 2**30, **load)
    return engines.tenant(SPEC, whole_of(H100), given, clock_mhz=H100.clocks_mhz.under_load, slower=1.0)


def player(tenant):
    return Player(
        plain_trace(kernels=tenant.most_kernels, device_ns=float(tenant.most_kernels)), outstanding=0, steps=tenant
    )


def played(tenant, *neighbours, **options):
    outcome = simulate([player(tenant), *neighbours], window_end_ns=WINDOW_NS, deadline_ns=4 * WINDOW_NS, **options)
    assert outcome.finished
    return outcome.requests


def neighbour():
    """Keeps half of the SMs and of the DRAM busy all the time."""
    return Player(plain_trace(kernels=50, device_ns=5e6, occupancy=0.6, dram=0.5))


def test_alone_an_engine_takes_the_time_of_its_steps():
    tenant = engine(in_flight=32)
    [found] = played(tenant)
    times = StepTimes(
        tenant._traces.times.model, EnginePart(H100), most_tokens=8192, attention=ENGINES["vllm"].attention
    )
    record = serve(
        Batching(EngineSettings(1024, 8192, 100_000)),
        lambda step: step_ns(ENGINES["vllm"], times, step),
        lambda _: (256, 64),
        until_ns=WINDOW_NS,
        in_flight=32,
    )
    gaps = np.diff(found.slot_ends[:, 2:-2], axis=1)
    assert np.median(gaps) == pytest.approx(float(np.median(record.tokens().between())), rel=0.03)


def test_a_request_has_its_due_time_its_first_token_and_one_end_per_token():
    arrivals = np.arange(20) * 100_000_000
    [found] = played(engine(arrivals_ns=arrivals))
    assert found.intended.tolist() == arrivals.tolist()
    assert (found.first > found.intended).all()
    assert (np.diff(found.slot_ends, axis=1) >= 0).all()
    assert (found.slot_ends[:, 2] == found.first).all()
    assert (found.slot_ends[:, -1] == found.done).all()
    assert found.slot_ends.shape == (20, 64 + 4)


def test_a_heavy_neighbour_slows_tokens_down_and_a_light_one_in_turns_only():
    def gap(*neighbours, **options):
        found = played(engine(in_flight=32), *neighbours, **options)[0]
        return float(np.median(np.diff(found.slot_ends[:, 2:-2], axis=1)))

    alone = gap()
    assert gap(neighbour()) > 1.1 * alone
    assert gap(neighbour(), slicing=TURNS) > 1.1 * alone
    light = Player(plain_trace(kernels=50, device_ns=5e6, occupancy=0.02, dram=0.01))
    assert gap(light) == pytest.approx(alone, rel=0.1)
    assert gap(light, slicing=TURNS) > 1.3 * alone


def test_the_engine_slows_its_neighbour_down():
    alone = simulate([neighbour()], window_end_ns=WINDOW_NS).requests[0]
    beside = played(engine(in_flight=64), neighbour())[1]
    assert np.mean(beside.done - beside.started) > 1.1 * np.mean(alone.done - alone.started)


def test_a_full_cache_shows_in_the_facts():
    engines = Engines(H100, lambda name: find(name).entry.config)
    load = EngineLoad(window_end_ns=WINDOW_NS, memory_bytes=9.6 * 2**30, in_flight=64)
    tenant = engines.tenant(SPEC, whole_of(H100), load, clock_mhz=1650.0, slower=1.0)
    facts = played(tenant)[0].facts
    assert facts["most_cache_used"] > 0.9
    assert facts["most_sequences"] < 64


def test_the_range_of_an_engine_names_its_data_and_is_wider_where_nothing_was_measured():
    known, unknown = (
        model_error(gpu, SPEC, Sharing(mode=ALONE), Controls(), first=False) for gpu in (H100, find_gpu("rtx-4090"))
    )
    assert known["validated"]
    assert known["time"][0] < 1 < known["time"][1]
    assert "data sets on H100" in known["error"]
    assert unknown["time"][1] / unknown["time"][0] > known["time"][1] / known["time"][0]


STUDY = """
tenants:
  gen: {workload: llama-3.2-1b, mode: generate, software: vllm, seq: 128, tokens: 32, load: LOAD}
  embed: {workload: bert-base-mini, batch: 4, load: poisson(100)}
mixes: [solo, pairs]
sharing: [processes, mps, mig]
blocks: 2
"""


@pytest.mark.slow
@pytest.mark.parametrize("load", ["closed(512)", "poisson(20)"])
def test_a_run_of_an_engine_beside_an_embedder_is_valid_and_has_tokens(tmp_path, load):
    study = study_from_text(STUDY.replace("LOAD", load), source="test")
    folder = run(study, device="sim:h200-sxm5-141gb", out=tmp_path).folder
    assert [tuple(row) for row in sql("select distinct verdict from trials", [folder]).rows] == [("valid",)]
    tokens = sql("select distinct tokens_out from requests where tenant = 'gen'", [folder]).rows
    assert [tuple(row) for row in tokens] == [(32,)]
    [first, *_] = sql("select facts from tenants where tenant = 'gen' and facts is not null", [folder]).rows
    assert json.loads(first[0])["engine"]["sequences_per_step"] > 1
