"""Exports for tools that keep servers running: read by the tools' own parsers, and started with stand-ins."""

import os
import subprocess
from shutil import which

import pytest
import yaml

from cotenant.planning.exports import servers
from cotenant.planning.exports.model import CannotExpress, Model
from tests.support import pace
from tests.support.exported_plans import Machine, device, files_for, folder_for, free_ports, plan, plan_of, seat

WRITER = Model("llama-3.2-3b", generates=True, seq=256, tokens=64, weights="meta-llama/$(x) %h")
MODELS = {"chat": WRITER, "code": WRITER, "embed": Model("bert-base", seq=128)}


@pytest.fixture(autouse=True)
def first_port(monkeypatch):
    monkeypatch.setattr(servers, "FIRST_PORT", free_ports(12))


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path / "a folder")
    yield made
    made.run("plan.sh", "down")


def mixed():
    return plan_of(
        device("alone", seat("code", software="vllm")),
        device("mps", seat("chat", share=60.0, software="vllm"), seat("embed", share=40.0, software="onnxruntime")),
    )


def written(machine, target, made):
    files = files_for(target, made, MODELS, folder=machine.folder)
    machine.write({name: text.replace("REPLACE-WITH-A-RELEASE", "26.10") for name, text in files.items()})
    machine.provide(files)
    (machine.folder / "plan.sh").chmod(0o755)
    return files


def test_compose_starts_tenants_of_a_gpu_one_after_the_other_in_its_mps():
    services = yaml.safe_load(files_for("compose", mixed(), MODELS)["compose.yaml"])["services"]
    assert list(services) == ["code", "chat", "embed"]
    assert "depends_on" not in services["code"]
    assert services["embed"]["depends_on"] == {"chat": {"condition": "service_healthy"}}
    assert services["chat"]["environment"] == {
        "CUDA_MPS_PIPE_DIRECTORY": "/mps-1",
        "CUDA_MPS_LOG_DIRECTORY": "/mps-1-log",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "60",
    }
    (gpu,) = services["chat"]["deploy"]["resources"]["reservations"]["devices"]
    assert gpu["device_ids"] == ["1"]
    assert services["chat"]["command"][2] == "meta-llama/$$(x) %h", "Compose would replace a variable"
    assert services["embed"]["volumes"][0] == "./triton/embed/embed:/plan/triton/embed/embed:ro"


def test_compose_is_started_inside_the_sharing_and_stopped(machine):
    written(machine, "compose", mixed())
    done = machine.run("plan.sh", "up", FAKE_MPS="unattached")
    if os.geteuid() == 0:
        assert "not all 2 tenants are attached to the MPS of GPU 1" in done.stderr
    else:
        assert "run this as root" in done.stderr
    assert machine.left_behind == []
    written(machine, "compose", plan("mig", seat("code", share="1g.10gb"), seat("chat", share="3g.40gb")))
    done = machine.run("plan.sh", "up")
    assert done.returncode == 0, done.stderr
    assert machine.run("plan.sh", "down").returncode == 0
    up, down = [line for line in machine.log.splitlines() if line.startswith("docker")][-2:]
    assert up.startswith(f"docker compose --project-directory {machine.folder} --file {machine.folder}/compose.yaml up")
    assert up.endswith("mig=MIG-0-1-3g.40gb")
    assert " down " in down
    assert machine.left_behind == []


@pytest.mark.parametrize(
    ("sharing", "share"), [("alone", None), ("processes", None), ("mps", 40.0), ("mig", "3g.40gb")]
)
def test_compose_files_are_read_by_docker_compose(machine, sharing, share):
    if which("docker-compose") is None:
        pytest.skip("docker-compose isn't installed")
    tenants = (
        [seat("chat", share=share)] if sharing == "alone" else [seat(name, share=share) for name in ("chat", "embed")]
    )
    written(machine, "compose", plan(sharing, *tenants))
    done = subprocess.run(
        ["docker-compose", "-f", str(machine.folder / "compose.yaml"), "config"], capture_output=True, text=True,
        env={**os.environ, "COTENANT_STATE": "/s", "MIG_CHAT": "MIG-1", "MIG_EMBED": "MIG-2"},
        timeout=pace.seconds(100), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "meta-llama/$$(x) %h" in done.stdout, "config escapes it again"


def test_systemd_starts_tenants_in_order_inside_the_sharing_and_stops_them(machine):
    written(machine, "systemd", mixed())
    done = machine.run("plan.sh", "up")
    assert done.returncode == 0, done.stderr
    events = [(line["what"], line["program"]) for line in machine.servers]
    assert events == [
        ("started", "vllm"), ("ready", "vllm"), ("started", "vllm"), ("ready", "vllm"),
        ("started", "tritonserver"), ("ready", "tritonserver"),
    ]  # fmt: skip
    chat = [line for line in machine.servers if line["what"] == "started"][1]
    assert chat["words"][1] == WRITER.weights
    assert chat["environment"]["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "60"
    assert chat["environment"]["CUDA_MPS_PIPE_DIRECTORY"].endswith("/mps-1")
    assert "embed uses 8000 MiB; the plan has 8192 MiB" in done.stderr
    done = machine.run("plan.sh", "down")
    assert done.returncode == 0, done.stderr
    assert machine.running == []
    assert machine.left_behind == []
    assert list((machine.tools / "units").iterdir()) == []


def test_systemd_units_are_read_by_systemd(tmp_path):
    if which("systemd-analyze") is None:
        pytest.skip("systemd-analyze isn't installed")
    machine = Machine(tmp_path / "100 % $HOME")
    written(machine, "systemd", mixed())
    units = sorted(map(str, (machine.folder / "units").iterdir()))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", "--man=no", *units], capture_output=True, text=True,
        timeout=pace.seconds(100), check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_llama_swap_may_load_all_models_of_the_plan_at_the_same_time():
    made = plan("mps", seat("chat", share=60.0), seat("code", share=40.0))
    config = yaml.safe_load(files_for("llama-swap", made, MODELS)["llama-swap.yaml"])
    assert config["matrix"] == {"vars": {"m0": "chat", "m1": "code"}, "sets": {"plan": "m0 & m1"}}
    assert config["hooks"]["on_startup"]["preload"] == ["chat", "code"]
    assert config["models"]["chat"]["cmd"] == "./plan.sh serve chat"
    assert config["models"]["chat"]["proxy"] == f"http://127.0.0.1:{servers.FIRST_PORT}"
    with pytest.raises(CannotExpress, match="embed, which doesn't generate"):
        files_for("llama-swap", mixed(), MODELS)


def test_llama_swap_starts_servers_inside_the_sharing_and_ends_with_them(machine):
    written(machine, "llama-swap", plan("mps", seat("chat", share=60.0), seat("code", share=40.0)))
    done = machine.run("plan.sh", "up")
    assert done.returncode == 0, done.stderr
    shares = [
        line["environment"]["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]
        for line in machine.servers
        if line["what"] == "started"
    ]
    assert shares == ["60", "40"]
    assert machine.run("plan.sh", "check").returncode == 0
    assert machine.run("plan.sh", "down").returncode == 0
    assert machine.running == []
    assert machine.left_behind == []


def test_a_llama_swap_that_ends_is_an_error(machine):
    written(machine, "llama-swap", plan("alone", seat("chat")))
    done = machine.run("plan.sh", "up", STAND_IN_DIES="--config")
    assert done.returncode == 1
    assert "chat ended before it was ready" in done.stderr
    assert machine.left_behind == []


def test_the_readme_says_only_what_up_checks():
    assert "attached to MPS and within its memory" in files_for("vllm,triton", mixed(), MODELS)["README.md"]
    text = files_for("compose", mixed(), MODELS)["README.md"]
    assert "attached to MPS" in text
    assert "within its memory" not in text


def test_a_carrier_goes_with_the_servers_that_are_named():
    assert "triton/chat/chat/1/model.json" in files_for("compose,triton", mixed(), MODELS)
    assert "triton/chat/chat/1/model.json" not in files_for("systemd", mixed(), MODELS)
    assert any("export again where it moves" in note for note in folder_for("systemd", mixed(), MODELS).notes)
