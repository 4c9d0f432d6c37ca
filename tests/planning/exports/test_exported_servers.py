"""Exports with servers, started for real with stand-ins for GPU tools and servers on PATH."""

import json
import socket
import time

import pytest

from cotenant.planning.exports import servers
from cotenant.planning.exports.model import Model
from tests.support.exported_plans import Machine, device, files_for, free_ports, plan, plan_of, seat

ENCODER = Model("bert-base", seq=128)
WRITER = Model("llama-3.2-3b", generates=True, seq=256, tokens=64, hub_id="meta-llama/Llama-3.2-3B")
MODELS = {"chat": WRITER, "code": WRITER, "embed": ENCODER}


@pytest.fixture(autouse=True)
def first_port(monkeypatch):
    first = free_ports(12)
    monkeypatch.setattr(servers, "FIRST_PORT", first)
    return first


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path)
    yield made
    made.run("plan.sh", "down")


def started(machine, target, made, **settings):
    files = files_for(target, made, MODELS)
    machine.write(files)
    machine.provide(files)
    return machine.run("plan.sh", "up", **settings)


def mixed():
    return plan_of(
        device("alone", seat("code", software="vllm")),
        device("mps", seat("chat", share=60.0, software="vllm"), seat("embed", share=40.0, software="onnxruntime")),
    )


def test_every_server_gets_the_plans_environment_in_order(machine):
    done = started(machine, "vllm,triton", mixed())
    assert done.returncode == 0, done.stderr
    events = [(line["what"], line["program"]) for line in machine.servers]
    assert events == [
        ("started", "vllm"), ("ready", "vllm"), ("started", "vllm"), ("ready", "vllm"),
        ("started", "tritonserver"), ("ready", "tritonserver"),
    ]  # fmt: skip
    code, chat, embed = (line for line in machine.servers if line["what"] == "started")
    assert code["environment"] == {"CUDA_VISIBLE_DEVICES": "GPU-00000000"}
    shares = [server["environment"].pop("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") for server in (chat, embed)]
    assert shares == ["60", "40"]
    assert chat["environment"] == embed["environment"]
    assert chat["environment"]["CUDA_VISIBLE_DEVICES"] == "GPU-00000001"
    assert chat["environment"]["CUDA_MPS_PIPE_DIRECTORY"].endswith("/mps-1")
    assert {server["cwd"] for server in (code, chat, embed)} == {str(machine.folder)}
    assert "embed uses 8000 MiB; the plan has 8192 MiB" in done.stderr


def test_down_ends_servers_in_reverse_order(machine):
    assert started(machine, "vllm,triton", mixed()).returncode == 0
    assert machine.run("plan.sh", "check").returncode == 0
    done = machine.run("plan.sh", "down")
    assert done.returncode == 0, done.stderr
    assert [line["program"] for line in machine.servers if line["what"] == "ended"] == ["tritonserver", "vllm", "vllm"]
    assert machine.running == []
    assert machine.left_behind == []
    assert (machine.folder / "logs" / "chat.log").exists()


def test_down_ends_what_a_server_leaves_behind(machine):
    assert started(machine, "vllm", plan("alone", seat("chat")), STAND_IN_STUBBORN="1").returncode == 0
    assert machine.run("plan.sh", "down").returncode == 0
    assert machine.running == []


def test_a_server_that_ends_before_it_is_ready_takes_the_others_with_it(machine):
    done = started(machine, "vllm,triton", mixed(), STAND_IN_DIES="triton/embed")
    assert done.returncode == 1
    assert "CUDA out of memory" in done.stderr
    assert "embed ended before it was ready" in done.stderr
    assert machine.running == []
    assert machine.left_behind == []


def test_a_server_outside_mps_is_an_error(machine):
    done = started(machine, "vllm,triton", mixed(), FAKE_MPS="unattached")
    assert done.returncode == 1
    assert "chat isn't attached to the MPS of GPU 1" in done.stderr
    assert machine.running == []


def test_more_memory_than_planned_is_a_warning(machine):
    done = started(machine, "vllm", plan("alone", seat("chat")), STAND_IN_MIB="9000")
    assert done.returncode == 0
    assert "warning: chat uses 9000 MiB; the plan has 8192 MiB" in done.stderr


def test_check_finds_a_server_that_ended(machine):
    assert started(machine, "vllm", plan("alone", seat("chat"))).returncode == 0
    machine.run(
        "plan.sh", "run", "chat", "bash", "-c", 'kill -9 -- "-$(cut -d" " -f1 "$XDG_RUNTIME_DIR"/*/process-chat)"'
    )
    while machine.running:  # a busy machine takes a moment to end what was killed
        time.sleep(0.01)
    done = machine.run("plan.sh", "check")
    assert done.returncode == 1
    assert "chat isn't running" in done.stderr
    assert machine.run("plan.sh", "down").returncode == 0


def test_a_port_in_use_is_not_taken_for_the_server(machine, first_port):
    with socket.create_server(("127.0.0.1", first_port)):
        done = started(machine, "vllm", plan("alone", seat("chat")))
    assert done.returncode == 1
    assert f"port {first_port}, which chat needs, is in use" in done.stderr
    assert machine.servers == []


def test_models_still_to_be_named_or_provided_are_refused_before_anything_starts(machine):
    unnamed = {"chat": Model("yours", generates=True), "embed": ENCODER}
    alone = plan("alone", seat("chat"))
    for target, problem in [
        ("vllm", "replace REPLACE-WITH-THE-HUB-ID-OF/yours"),
        ("triton", "write the model of chat in"),
    ]:
        machine.write(files_for(target, alone, unnamed))
        done = machine.run("plan.sh", "up")
        assert done.returncode == 1
        assert problem in done.stderr
    machine.write(files_for("triton", plan("alone", seat("embed")), unnamed))
    assert "embed needs" in machine.run("plan.sh", "up").stderr
    assert machine.log == ""
    assert machine.left_behind == []


def test_mig_instances_are_made_for_servers(machine):
    made = plan("mig", seat("chat", share="3g.40gb"), seat("code", share="4g.40gb"))
    assert started(machine, "vllm", made).returncode == 0
    seen = [line["environment"]["CUDA_VISIBLE_DEVICES"] for line in machine.servers if line["what"] == "started"]
    assert seen == ["MIG-0-2-3g.40gb", "MIG-0-1-4g.40gb"]


def test_servers_listen_on_this_machine_only_and_get_memory_sequences_and_length(first_port):
    files = files_for("vllm,triton", mixed(), MODELS)
    assert (
        f"--host 127.0.0.1 --port {first_port + 1} --gpu-memory-utilization 0.1 --max-num-seqs 4 "
        "--max-num-batched-tokens 2048 --max-model-len 320" in files["plan.sh"]
    )
    doors = (
        f"--http-address=127.0.0.1 --grpc-address=127.0.0.1 --metrics-address=127.0.0.1 --http-port={first_port + 2}"
    )
    assert doors in files["plan.sh"]
    triton = json.loads(files_for("triton", mixed(), MODELS)["triton/chat/chat/1/model.json"])
    assert triton == {
        "model": "meta-llama/Llama-3.2-3B", "gpu_memory_utilization": 0.1, "max_num_seqs": 4,
        "tensor_parallel_size": 1, "max_num_batched_tokens": 2048, "max_model_len": 320,
    }  # fmt: skip
