"""Exports of a plan, read back by each tool's own parser where one is available."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cotenant.api.planning.devices import devices_of
from cotenant.api.planning.serving import Planned, write_plan
from cotenant.api.planning.written import read_planned
from cotenant.errors import StudyError
from cotenant.planning.exports.model import CannotExpress, Model
from cotenant.planning.exports.targets import TARGETS
from cotenant.planning.mixes.plan import Kept, PlannedDevice, SeatedTenant, ServingPlan
from cotenant.study.files import study_from
from tests.support.elsewhere import interpreter

GIB = 2**30
MODELS = {
    "embed": Model("bert-base", seq=128, runs={"workload": "bert-base", "seq": 128}),
    "chat": Model(
        "llama-3.2-3b",
        generates=True,
        seq=256,
        tokens=64,
        weights="meta-llama/Llama-3.2-3B",
        runs={"workload": "llama-3.2-3b", "seq": 256, "mode": "generate", "tokens": 64},
    ),
}


def seat(tenant, *, share=None, batch=4, priority=0, gib=8, limit=30.0):
    kept = (Kept("p99", limit, 8.0, 10.0, 14.0),)
    return SeatedTenant(tenant, 0, 1, 100.0, batch, "eager", share, priority, gib * GIB, (1.0, 1.1, 1.2), kept)


def plan(sharing, *tenants, devices=1):
    title = "NVIDIA A100-SXM4-80GB"
    device = PlannedDevice(
        "sim:a100-sxm4-80gb",
        "sim:a100-sxm4-80gb",
        title,
        sharing,
        tenants,
        devices,
        1.79,
        80 * GIB,
        0.5,
        0.2,
        200,
        "simulated",
    )
    return ServingPlan("cost", (device,), (), 1.79, 1.79, 1.79, "proof", 0.1, ())


def run_script(folder, *words):
    """Run the script with fake driver tools that log their calls."""
    log = folder / "log"
    for tool in ("nvidia-smi", "nvidia-cuda-mps-control"):
        (folder / tool).write_text(f'#!/bin/sh\necho {tool} "$@" "cvd=${{CUDA_VISIBLE_DEVICES:-}}" >> {log}\n')
        (folder / tool).chmod(0o755)
    done = subprocess.run(
        ["bash", str(folder / "plan.sh"), *words],
        env={"PATH": f"{folder}:/usr/bin:/bin", "COTENANT_STATE": str(folder / "state")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done, log.read_text() if log.exists() else ""


@pytest.mark.parametrize("sharing", ["alone", "processes", "mps", "mig"])
def test_scripts_are_valid_shell(tmp_path, sharing):
    share = "3g.40gb" if sharing == "mig" else None
    made = plan(sharing, seat("chat", share=share))
    for target in ("shell", "vllm", "triton"):
        for name, text in TARGETS[target](made, MODELS).items():
            if name.endswith(".sh"):
                path = tmp_path / name
                path.write_text(text)
                subprocess.run(["bash", "-n", str(path)], check=True)


def test_the_shell_script_starts_mps_gives_shares_and_undoes_it(tmp_path):
    made = plan("mps", seat("embed", share=60.0), seat("chat", share=40.0))
    (tmp_path / "plan.sh").write_text(TARGETS["shell"](made, MODELS)["plan.sh"])
    done, log = run_script(tmp_path, "up")
    assert done.returncode == 0, done.stderr
    assert "nvidia-cuda-mps-control -d cvd=0" in log
    done, _ = run_script(tmp_path, "env", "embed")
    assert "export CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=60" in done.stdout
    assert f"export CUDA_MPS_PIPE_DIRECTORY={tmp_path}/state/mps-0/pipe" in done.stdout
    run_script(tmp_path, "down")
    assert not (tmp_path / "state").exists()
    done, _ = run_script(tmp_path, "env", "nobody")
    assert done.returncode == 2
    assert "expected one of: embed chat" in done.stderr


def test_the_shell_script_makes_large_mig_instances_first_and_removes_them(tmp_path):
    made = plan("mig", seat("embed", share="1g.10gb"), seat("chat", share="4g.40gb"))
    (tmp_path / "plan.sh").write_text(TARGETS["shell"](made, MODELS)["plan.sh"])
    done, log = run_script(tmp_path, "up")
    assert done.returncode == 0, done.stderr
    assert log.index("-cgi 4g.40gb") < log.index("-cgi 1g.10gb")
    (tmp_path / "log").unlink()
    _, log = run_script(tmp_path, "down")
    assert log.index("-dci") < log.index("-dgi") < log.index("-mig 0")


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_a_written_plan_exports_as_the_plan_itself(tmp_path, target):
    shares = ("1g.10gb", "4g.40gb") if target == "kubernetes" else (None, None)
    sharing = "mig" if target == "kubernetes" else "processes"
    names = ("chat", "chat") if target == "vllm" else ("embed", "chat")
    seats = [replace(seat(name, share=share), replica=place, replicas=2 if names[0] == names[1] else 1, together=2)
             for place, (name, share) in enumerate(zip(names, shares, strict=True))]  # fmt: skip
    (device,) = devices_of("sim:a100-sxm4-80gb", {}, priced=False).kinds
    made = plan(sharing, *seats)
    made = replace(made, devices=(replace(made.devices[0], memory_bytes=device.memory_bytes),))
    write_plan(Planned(made, "tenants.yaml", device.name, MODELS), tmp_path / "plan.yaml")
    read = read_planned(tmp_path / "plan.yaml")
    expected = {name: replace(MODELS[name], weights=None) for name in names}
    assert TARGETS[target](read.plan, read.models) == TARGETS[target](made, expected)


def test_a_written_plan_that_lost_a_key_is_refused_by_name(tmp_path):
    path = tmp_path / "plan.yaml"
    write_plan(Planned(plan("alone", seat("embed")), "tenants.yaml", "sim:a100-sxm4-80gb", MODELS), path)
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "memory_bytes" not in line))
    with pytest.raises(StudyError, match=r"plan\.yaml: embed has no memory_bytes"):
        read_planned(path)


def test_vllm_gets_memory_sequences_and_length():
    text = TARGETS["vllm"](plan("mps", seat("chat", share=40.0, batch=8)), MODELS)["vllm.sh"]
    line = next(line for line in text.splitlines() if "vllm serve" in line)
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=40" in line
    assert "meta-llama/Llama-3.2-3B" in line
    assert "--gpu-memory-utilization 0.10 --max-num-seqs 8 --max-model-len 320" in line


def test_vllm_refuses_a_tenant_that_does_not_generate_and_names_a_target_that_can():
    with pytest.raises(CannotExpress, match="vllm can't express embed, which doesn't generate") as refused:
        TARGETS["vllm"](plan("mps", seat("embed"), seat("chat")), MODELS)
    assert refused.value.hint == "export it with --for triton"


def test_kubernetes_claims_share_a_gpu_as_the_plan_says():
    text = TARGETS["kubernetes"](plan("mps", seat("embed"), seat("chat")), MODELS)["kubernetes.yaml"]
    claim, *deployments = yaml.safe_load_all(text)
    assert (claim["apiVersion"], claim["kind"]) == ("resource.k8s.io/v1", "ResourceClaim")
    (request,) = claim["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == "gpu.nvidia.com"
    assert "NVIDIA A100-SXM4-80GB" in request["exactly"]["selectors"][0]["cel"]["expression"]
    sharing = claim["spec"]["devices"]["config"][0]["opaque"]["parameters"]["sharing"]
    assert sharing == {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 100}}
    assert [one["metadata"]["name"] for one in deployments] == ["embed", "chat"]
    for one in deployments:
        pod = one["spec"]["template"]["spec"]
        assert pod["resourceClaims"][0]["resourceClaimName"] == claim["metadata"]["name"]
        assert pod["containers"][0]["resources"]["claims"] == [{"name": pod["resourceClaims"][0]["name"]}]
        assert one["spec"]["selector"]["matchLabels"] == one["spec"]["template"]["metadata"]["labels"]


def test_kubernetes_gives_each_tenant_its_mig_instance():
    made = plan("mig", seat("embed", share="1g.10gb"), seat("chat", share="3g.40gb"))
    documents = list(yaml.safe_load_all(TARGETS["kubernetes"](made, MODELS)["kubernetes.yaml"]))
    claims = [one for one in documents if one["kind"] == "ResourceClaim"]
    wanted = [one["spec"]["devices"]["requests"][0]["exactly"] for one in claims]
    assert [one["deviceClassName"] for one in wanted] == ["mig.nvidia.com"] * 2
    assert ["1g.10gb" in str(wanted[0]), "3g.40gb" in str(wanted[1])] == [True, True]


def test_kubernetes_and_ray_refuse_unequal_shares_by_name():
    made = plan("mps", seat("embed", share=60.0), seat("chat", share=40.0))
    with pytest.raises(CannotExpress, match=r"unequal MPS shares on .* \(embed 60 %, chat 40 %\)") as refused:
        TARGETS["kubernetes"](made, MODELS)
    assert refused.value.hint == "export it with --for kubernetes-hami"
    with pytest.raises(CannotExpress, match="ray can't express MPS shares"):
        TARGETS["ray"](made, MODELS)


def test_ray_puts_tenants_of_one_device_on_one_gpu():
    text = TARGETS["ray"](plan("processes", seat("embed"), seat("chat")), MODELS)["serve.yaml"]
    applications = yaml.safe_load(text)["applications"]
    options = [one["deployments"][0]["ray_actor_options"] for one in applications]
    assert sum(one["num_gpus"] for one in options) <= 1
    assert options[0]["resources"] == options[1]["resources"]


def test_cotenants_own_export_is_a_study_that_can_be_run():
    made = plan("mps", seat("embed", share=60.0, batch=1), seat("chat", share=40.0))
    files = TARGETS["cotenant"](made, MODELS)
    assert yaml.safe_load(files["plan.yaml"])["devices"][0]["tenants"]["embed"]["share"] == 60
    study = study_from(yaml.safe_load(files["measure-0.yaml"]))
    assert study.tenants["embed"].slo.latency_s == pytest.approx(0.03)
    assert str(study.sharing[0]) == "mps[60, 40]"
    assert study.tenants["chat"].load.rate_rps == pytest.approx(25.0)


def test_triton_rejects_requests_that_waited_too_long_and_batches_as_planned():
    files = TARGETS["triton"](plan("mps", seat("embed", priority=2), seat("chat")), MODELS)
    config = files["embed/embed/config.pbtxt"]
    assert "max_batch_size: 4" in config
    assert "preferred_batch_size: [ 4 ]" in config
    assert "default_timeout_microseconds: 15000" in config
    assert json.loads(files["chat/chat/1/model.json"])["max_num_seqs"] == 4


def test_triton_doesn_t_wait_for_batches_that_the_plan_doesn_t_wait_for():
    made = plan("mps", replace(seat("embed"), together=2), seat("chat"))
    config = TARGETS["triton"](made, MODELS)["embed/embed/config.pbtxt"]
    assert "max_batch_size: 4" in config
    assert "max_queue_delay_microseconds: 0" in config
    assert "preferred_batch_size" not in config


def test_triton_configs_parse_as_its_own_protobuf(tmp_path):
    python = interpreter("tritonclient")
    texts = TARGETS["triton"](plan("mps", seat("embed", priority=2), seat("chat")), MODELS)
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    command = [python, Path(__file__).with_name("triton_configs.py"), *sorted(tmp_path.rglob("config.pbtxt"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["chat", 0, 1], ["embed", 4, 1]], "vLLM batches by itself"


def test_the_device_plugin_gets_the_number_of_replicas_and_refuses_unequal_shares():
    files = TARGETS["kubernetes-device-plugin"](plan("processes", seat("embed"), seat("chat")), MODELS)
    config = yaml.safe_load(yaml.safe_load(files["device-plugin.yaml"])["data"]["sim-a100-sxm4-80gb"])
    assert config["sharing"]["timeSlicing"]["resources"] == [{"name": "nvidia.com/gpu", "replicas": 2}]
    pods = [one["spec"]["template"]["spec"] for one in yaml.safe_load_all(files["deployments.yaml"])]
    assert pods[0]["nodeSelector"] == {"nvidia.com/gpu.product": "A100-SXM4-80GB"}
    assert pods[0]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu.shared": 1}
    with pytest.raises(CannotExpress, match="unequal MPS shares") as refused:
        TARGETS["kubernetes-device-plugin"](plan("mps", seat("embed", share=60.0), seat("chat", share=40.0)), MODELS)
    assert refused.value.hint == "export it with --for kubernetes-hami"


def test_hami_holds_tenants_to_unequal_shares_and_their_memory():
    made = plan("mps", seat("embed", share=60.0, gib=3), seat("chat", share=40.0))
    pods = list(yaml.safe_load_all(TARGETS["kubernetes-hami"](made, MODELS)["hami.yaml"]))
    limits = [pod["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] for pod in pods]
    assert limits[0] == {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3072, "nvidia.com/gpucores": 60}
    assert limits[1]["nvidia.com/gpucores"] == 40
    with pytest.raises(CannotExpress, match="the MIG instances"):
        TARGETS["kubernetes-hami"](plan("mig", seat("embed", share="1g.10gb")), MODELS)


def test_kai_has_fractions_of_memory_and_refuses_shares_and_isolation_by_name():
    pods = list(
        yaml.safe_load_all(
            TARGETS["kubernetes-kai"](plan("processes", seat("embed"), seat("chat")), MODELS)["kai.yaml"]
        )
    )
    template = pods[0]["spec"]["template"]
    assert template["metadata"]["annotations"] == {"gpu-fraction": "0.10"}
    assert template["spec"]["schedulerName"] == "kai-scheduler"
    with pytest.raises(CannotExpress, match="compute shares"):
        TARGETS["kubernetes-kai"](plan("mps", seat("embed", share=60.0), seat("chat", share=40.0)), MODELS)
    own = replace(seat("embed"), isolated=True)
    with pytest.raises(CannotExpress, match="isolated memory for embed") as refused:
        TARGETS["kubernetes-kai"](plan("processes", own, seat("chat")), MODELS)
    assert refused.value.hint == "export it with --for kubernetes-hami"


def test_the_script_sets_clock_and_power_limit_and_restores_both(tmp_path):
    made = plan("mps", seat("embed"), seat("chat"))
    device = replace(made.devices[0], clock_mhz=1095.0, power_limit_w=280.0)
    (tmp_path / "plan.sh").write_text(TARGETS["shell"](replace(made, devices=(device,)), MODELS)["plan.sh"])
    up, said = run_script(tmp_path, "up")
    assert up.returncode == 0, up.stderr
    assert "-lgc 1095,1095" in said
    assert "-pl 280" in said
    (tmp_path / "state" / "power-0").write_text("400.00\n")
    down, said = run_script(tmp_path, "down")
    assert down.returncode == 0, down.stderr
    assert "-rgc" in said
    assert "-pl 400.00" in said


def test_triton_priorities_are_reversed():
    files = TARGETS["triton"](plan("mps", seat("embed", priority=2), seat("chat")), {**MODELS, "chat": MODELS["embed"]})
    assert "rate_limiter { priority: 1 }" in files["embed/embed/config.pbtxt"]
    assert "rate_limiter { priority: 3 }" in files["chat/chat/config.pbtxt"]
