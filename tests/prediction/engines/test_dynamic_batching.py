"""Servers that execute together what waits: embedders of vLLM, TEI, Triton."""

import numpy as np
import pytest

from cotenant.api.records import sql
from cotenant.api.run import run
from cotenant.errors import DeviceError
from cotenant.prediction.contention.simulation import Player, simulate
from cotenant.prediction.contention.trace import plain_trace
from cotenant.prediction.engines.dynamic_batching import BatchingTenant
from cotenant.prediction.engines.tenant import EngineLoad
from cotenant.study.files import study_from_text
from cotenant.tenancy.tenant_entry import TenantEntry

WINDOW_NS = 2e9


def batch(count):
    """4 ms and 1 ms for each request."""
    return plain_trace(kernels=4, device_ns=4e6 + 1e6 * count)


def served(most, **load):
    tenant = BatchingTenant(batch, most, EngineLoad(window_end_ns=WINDOW_NS, memory_bytes=0.0, **load))
    player = Player(batch(1), outstanding=0, steps=tenant)
    outcome = simulate([player], window_end_ns=WINDOW_NS, deadline_ns=3 * WINDOW_NS)
    assert outcome.finished
    return outcome.requests[0]


def test_what_waits_runs_together_and_ends_together():
    requests = served(8, arrivals_ns=np.array([0, 1_000_000, 2_000_000, 30_000_000]))
    assert requests.done.tolist() == pytest.approx([5e6, 11e6, 11e6, 35e6])
    assert requests.started.tolist() == pytest.approx([0.0, 5e6, 5e6, 30e6])
    assert requests.facts == pytest.approx({"requests_per_batch": 4 / 3, "most_requests": 2.0, "batches": 3.0})


def test_a_batch_has_at_most_so_many_and_sizes_in_between_their_own_time():
    requests = served(6, arrivals_ns=np.zeros(17, np.int64))
    assert np.unique(requests.done).tolist() == pytest.approx([10e6, 20e6, 29e6])


def test_a_closed_load_that_fits_a_batch_is_served_in_batches_of_that_size():
    requests = served(16, in_flight=16, ramp_ns=1e6)
    late = requests.intended > WINDOW_NS / 2
    assert np.median((requests.done - requests.intended)[late]) == pytest.approx(20e6, rel=0.01)


def test_stages_end_in_order_within_a_request():
    requests = served(4, arrivals_ns=np.zeros(9, np.int64))
    assert (np.diff(requests.slot_ends, axis=1) >= 0).all()
    assert (requests.slot_ends[:, -1] == requests.done).all()


FILE = """
tenants:
  embed: {workload: bert-base, seq: 128, software: vllm, load: closed(32)}
device: sim:a100-sxm4-40gb
mixes: [solo]
window: 1s
blocks: 2
"""


def ms(folder, sharing="alone"):
    """Mean latency of all requests."""
    return sql(
        "select avg(done_ns - intended_ns) / 1e6 from requests join trials using (trial) "
        f"where sharing = '{sharing}' and ok",
        [folder],
    ).rows[0][0]


@pytest.mark.parametrize("said", ["", "at_once: 32, "])
def test_an_embedder_of_vllm_batches_in_a_run_and_one_at_a_time_does_not(tmp_path, said):
    together = run(study_from_text(FILE.replace("seq:", f"{said}seq:"), source="test"), out=tmp_path / "together")
    single = run(study_from_text(FILE.replace("seq:", "at_once: 1, seq:"), source="test"), out=tmp_path / "single")
    assert ms(together.folder) < ms(single.folder) / 2


def test_auto_is_what_the_software_does():
    def choices(**changes):
        return TenantEntry.model_validate({"workload": "bert-base", **changes}).choices_at_once

    assert choices() == (1,)
    assert choices(software="vllm", seq=128) == (8, 64)
    assert choices(software="vllm", seq=8192) == (1,)
    assert choices(software="vllm", at_once=4) == (4,)


COPIES = """
tenants:
  embed: {workload: bert-base, seq: 32, load: closed(1)}
device: sim:h100-sxm5-80gb
mixes: [solo, {copies: {embed: [2]}}]
sharing: [mps]
settings: [{host_cores: *}]
window: 1s
blocks: 2
"""
ENGINE = """
tenants:
  chat: {workload: llama-3.2-1b, software: vllm, seq: 64, tokens: 16, load: closed(4)}
device: sim:h100-sxm5-80gb
mixes: [solo]
settings: [{host_cores: *}]
window: 1s
blocks: 1
"""


def test_tenants_compete_for_the_cores_of_a_host_that_has_too_few(tmp_path):
    def stretch(cores):
        """Latency of two copies over that of one."""
        study = study_from_text(COPIES.replace("*", str(cores)), source="test")
        folder = run(study, out=tmp_path / str(cores)).folder
        return ms(folder, "mps") / ms(folder)

    enough, few = stretch(8), stretch(1)
    assert few > 1.5 * enough


def test_an_engine_on_half_a_core_is_slower_alone(tmp_path):
    def alone(cores):
        study = study_from_text(ENGINE.replace("*", str(cores)), source="test")
        return ms(run(study, out=tmp_path / str(cores)).folder)

    assert alone(0.2) > 1.2 * alone(1)
    assert alone(1) == pytest.approx(alone(64))


def test_a_host_has_some_cores(tmp_path):
    with pytest.raises(DeviceError, match="host_cores must be above 0"):
        run(study_from_text(ENGINE.replace("*", "0"), source="test"), out=tmp_path)
