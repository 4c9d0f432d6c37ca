"""The pure part of `copies`: tuning, the studies, and what servers resolved."""

import pytest

from cotenant import copies
from cotenant.analyse.copies_answer import CopyLevel, Tuning
from cotenant.devices.cpu.cores import by_node, equal_blocks
from cotenant.errors import CotenantError, StudyError
from cotenant.study.copies_study import copies_study, ways_among
from cotenant.study.expand import expand
from cotenant.study.files import study_from
from cotenant.tenancy.interval import Estimate
from cotenant.tenancy.load import Load
from cotenant.workloads.servers.process import differences, read_log

SERVER = {"workload": "http:/work", "server": {"start": "serve --port {port}"}}


def tuned(throughputs, asked=None):
    levels = [CopyLevel(2**n, Estimate(rps, None, None, 2, ""), Estimate(1, None, None, 2, "")) for n, rps in
              enumerate(throughputs)]  # fmt: skip
    return Tuning(tuple(levels), asked)


def test_the_least_load_that_saturates_is_chosen():
    found = tuned([10, 19, 38, 40, 40])
    assert found.saturated
    assert found.chosen.outstanding == 8


def test_a_copy_that_still_grows_is_no_baseline():
    assert not tuned([10, 20, 40]).saturated
    assert not tuned([10, 20, 40, 40], asked=2).saturated
    assert "40.0/s with 4" in tuned([10, 20, 40, 40], asked=2).sentence


def trials(load):
    study = copies_study("server", SERVER, "cpu", ["processes", {"mps": "equal"}], Load.model_validate(load), up_to=3,
                         window_s=2, blocks=(3, 3), budget_s=None, seed=1)  # fmt: skip
    return study, expand(study, 0, ()).trials


def test_the_study_has_one_to_n_copies_under_every_way_each_started_anew():
    study, made = trials("closed(8)")
    assert study.fresh == "trial"
    assert {(trial.mix, str(trial.sharing)) for trial in made} == {
        ("server", "alone"), ("server x2", "processes"), ("server x3", "processes"), ("server x2", "mps[50, 50]"),
        ("server x3", "mps[33, 33, 33]"),
    }  # fmt: skip
    assert {str(tenant.load) for trial in made for tenant in trial.tenants} == {"closed(8)"}
    assert all(tenant.own_cores for trial in made for tenant in trial.tenants)


def test_copies_divide_a_rate():
    _, made = trials("poisson(12)")
    rates = {len(trial.tenants): {tenant.load.rate_rps for tenant in trial.tenants} for trial in made}
    assert rates == {1: {12}, 2: {6}, 3: {4}}


def test_replicas_of_a_tenant_are_measured_beside_each_other_and_divide_its_load():
    tenants = {"chat": {"workload": "null", "rate": "40/s", "replicas": 4}, "embed": {"workload": "null"}}
    made = expand(study_from({"tenants": tenants}), 0, ()).trials
    by_mix = {trial.mix: [str(tenant.load) for tenant in trial.tenants] for trial in made}
    assert by_mix["chat"] == ["poisson(10)"]
    assert by_mix["chat /4"] == ["poisson(10)"] * 4
    assert by_mix["chat+embed"] == ["poisson(10)"] * 4 + ["closed(1)"]


def test_a_trace_without_a_rate_has_no_part_for_a_replica(tmp_path):
    with pytest.raises(StudyError, match="divided among replicas"):
        study_from({"tenants": {"a": {"workload": "null", "load": "trace(a.csv)", "replicas": 2}}, "mixes": ["solo"]})


def test_the_ways_are_those_in_which_each_copy_is_a_process():
    assert ways_among(["processes", "threads", "pinned"], gpu=False) == ["processes", "pinned"]
    assert ways_among(["processes", "streams", "mps", "mig"], gpu=True) == ["processes", "mps", {"mps": "equal"}, "mig"]


class Tree:
    """Two memory nodes with cores in turn, as some boards count them."""

    def glob(self, _):
        return ["/sys/devices/system/node/node0", "/sys/devices/system/node/node1"]

    def text(self, path):
        return "0,2,4,6" if "node0" in path else "1,3,5,7"


def test_core_blocks_are_equal_and_stay_within_a_memory_node():
    physical = by_node(Tree(), tuple((core,) for core in range(8)))
    assert equal_blocks(physical, 2) == ((0, 2, 4, 6), (1, 3, 5, 7))
    assert [len(block) for block in equal_blocks(physical, 3)] == [2, 2, 2]
    assert equal_blocks(physical, 9) == ()
    assert equal_blocks(((0, 4), (1, 5)), 4) == ((0,), (4,), (1,), (5,))


def test_a_log_says_what_a_server_resolved():
    vllm = "INFO GPU KV cache size: 290,864 tokens, Maximum concurrency for 32,768 tokens per request: 33.04x"
    assert read_log(vllm) == {"cache_tokens": 290_864, "context_tokens": 32_768}
    sglang = "max_total_num_tokens=1000, chunked_prefill_size=8192, max_running_requests=64, context_len=4096"
    assert read_log(sglang) == {
        "cache_tokens": 1000, "context_tokens": 4096, "sequences_at_once": 64, "tokens_per_step": 8192,
    }  # fmt: skip
    llama = "srv init: initializing slots, n_slots = 4\nslot init: id  0 | task -1 | new slot, n_ctx = 8000"
    assert read_log(llama) == {"sequences_at_once": 4, "context_tokens": 8000}


def test_copies_that_resolved_the_same_do_not_differ():
    assert differences([("a#1", {"cache_tokens": 10}), ("a#2", {"cache_tokens": 10})]) == []
    assert differences([("a#1", {"cache_tokens": 10}), ("a#2", {})]) == ["cache tokens differ: a#1: 10; a#2: unknown"]


def test_a_simulation_is_of_the_same_gpu_and_of_a_model(mock_nvml, monkeypatch, tmp_path):
    mock_nvml.install("a100")
    monkeypatch.setenv("COTENANT_TORCH_DEVICE", "cpu")
    file = tmp_path / "chat.yaml"
    file.write_text("tenants: {chat: {workload: gpt2, tokens: 4, software: vllm}}")
    answer = copies(
        file, device="cuda:0", simulate=True, up_to=2, load="closed(4)", window_s=0.3, blocks=(2, 2),
        sharing=["processes"], out=tmp_path / "runs", quiet=True,
    )  # fmt: skip
    assert answer.simulated
    assert answer.device.startswith("sim:a100")
    with pytest.raises(StudyError, match="its model isn't known"):
        copies("vllm serve x --port {port}", device="cuda:0", simulate=True, out=tmp_path)
    with pytest.raises(StudyError, match="a CPU can't be simulated"):
        copies(file, device="cpu", simulate=True, out=tmp_path)


@pytest.mark.parametrize(
    ("command", "better"),
    [
        ("vllm serve x", "vllm serve x --port {port}"),
        ("vllm serve x --port 8000 -v", "vllm serve x --port {port} -v"),
        ("serve --port=8000", "serve --port={port}"),
    ],
)
def test_a_command_without_a_free_port_is_refused_with_one_that_has(command, better, tmp_path):
    with pytest.raises(StudyError) as caught:
        copies(command, device="cpu", out=tmp_path)
    assert "has no {port}" in caught.value.message
    assert caught.value.hint == f'write cotenant copies "{better}"'


@pytest.mark.parametrize(
    ("server", "more", "said"),
    [
        ("python3 'serve.py --port {port}", {}, "No closing quotation"),
        (
            "python3 serve.py --port {port}",
            {"sharing": ["mps"]},
            "`mps` is not available on a CPU\nhint: use processes or pinned$",
        ),
        ("python3 serve.py --port {port}", {"slo": "5parsecs"}, "the study has 1 problem"),
        ("model.yaml", {}, "model.yaml starts no server"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_a_copy_is_tuned(server, more, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.yaml").write_text("tenants: {a: {workload: bert-base-mini}}")
    with pytest.raises(CotenantError, match=said):
        copies(server, device="cpu", workload="http:/work", out=tmp_path / "runs", **more)
    assert not (tmp_path / "runs").exists()
