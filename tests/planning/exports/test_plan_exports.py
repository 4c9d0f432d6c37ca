"""Exports of a plan, read back by each tool's own parser where one is available."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cotenant.api.plan import Plan
from cotenant.errors import CotenantError, StudyError
from cotenant.planning.exports import TARGETS
from cotenant.planning.exports.model import CannotExpress
from cotenant.planning.exports.quoting import markdown
from cotenant.planning.inputs.devices import devices_of
from cotenant.study.files import study_from
from tests.support import pace
from tests.support.elsewhere import interpreter
from tests.support.exported_plans import MODELS, Machine, files_for, notes_for, plan, seat


def handle(made, available="sim:a100-sxm4-80gb"):
    return Plan.of(made, source="tenants.yaml", available=available, models=MODELS)


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_a_written_plan_exports_as_the_plan_itself(tmp_path, target):
    shares = ("1g.10gb", "4g.40gb") if target == "kubernetes" else (None, None)
    sharing = "mig" if target == "kubernetes" else "processes"
    names = ("chat", "chat") if target in {"vllm", "llama-swap"} else ("embed", "chat")
    seats = [replace(seat(name, share=share), replica=place, replicas=2 if names[0] == names[1] else 1, together=2)
             for place, (name, share) in enumerate(zip(names, shares, strict=True))]  # fmt: skip
    (device,) = devices_of("sim:a100-sxm4-80gb", {}, priced=False).kinds
    made = plan(sharing, *seats)
    made = replace(made, devices=(replace(made.devices[0], memory_bytes=device.memory_bytes),))
    handle(made, device.name).write(tmp_path / "plan.yaml")
    read = Plan.read(tmp_path / "plan.yaml")
    published = {"embed": "google-bert/bert-base-uncased", "chat": "meta-llama/Llama-3.2-3B"}
    expected = {name: replace(MODELS[name], weights=None, hub_id=published[name]) for name in names}
    assert files_for(target, read, read.models) == files_for(target, made, expected)


def test_a_written_plan_that_lost_a_key_is_refused_by_name(tmp_path):
    path = tmp_path / "plan.yaml"
    handle(plan("alone", seat("embed"))).write(path)
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "memory_bytes" not in line))
    with pytest.raises(StudyError, match=r"plan\.yaml: embed has no memory_bytes"):
        Plan.read(path)


def test_kubernetes_claims_share_a_gpu_as_the_plan_says():
    text = files_for("kubernetes", plan("mps", seat("embed"), seat("chat")))["kubernetes.yaml"]
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


@pytest.mark.parametrize("target", ["kubernetes", "kubernetes-kai", "kubernetes-device-plugin"])
def test_manifests_have_no_anchors(target):
    texts = [
        text
        for name, text in files_for(target, plan("processes", seat("embed"), seat("chat"))).items()
        if name.endswith("yaml")
    ]
    nodes = [event for text in texts for event in yaml.parse(text)]
    assert nodes
    assert not [event for event in nodes if getattr(event, "anchor", None)]


def test_kubernetes_and_ray_refuse_unequal_shares_by_name():
    made = plan("mps", seat("embed", share=60.0), seat("chat", share=40.0))
    with pytest.raises(CannotExpress, match=r"unequal MPS shares on .* \(embed 60 %, chat 40 %\)") as refused:
        files_for("kubernetes", made)
    assert refused.value.hint == "export it with --for kubernetes-hami"
    with pytest.raises(CannotExpress, match="ray can't express MPS on"):
        files_for("ray", made)


def test_ray_puts_tenants_of_one_device_on_one_gpu():
    text = files_for("ray", plan("processes", seat("embed"), seat("chat")))["serve.yaml"]
    applications = yaml.safe_load(text)["applications"]
    options = [one["deployments"][0]["ray_actor_options"] for one in applications]
    assert sum(one["num_gpus"] for one in options) <= 1
    assert options[0]["resources"] == options[1]["resources"]


def test_cotenants_own_export_is_a_study_that_can_be_run():
    made = plan("mps", seat("embed", share=60.0, batch=1), seat("chat", share=40.0))
    files = files_for("cotenant", made)
    assert yaml.safe_load(files["plan.yaml"])["devices"][0]["tenants"]["embed"]["share"] == 60
    study = study_from(yaml.safe_load(files["measure-0.yaml"]))
    assert study.tenants["embed"].slo[0].limit_ms == pytest.approx(30)
    assert str(study.sharing[0]) == "mps[60, 40]"
    assert study.tenants["chat"].load.rate_rps == pytest.approx(25.0)


def test_triton_rejects_requests_that_waited_too_long_and_batches_as_planned():
    files = files_for("triton", plan("mps", seat("embed", priority=2), seat("chat")))
    config = files["triton/embed/embed/config.pbtxt"]
    assert "max_batch_size: 4" in config
    assert "preferred_batch_size: [ 4 ]" in config
    assert "default_timeout_microseconds: 15000" in config
    assert json.loads(files["triton/chat/chat/1/model.json"])["max_num_seqs"] == 4


def test_triton_doesn_t_wait_for_batches_that_the_plan_doesn_t_wait_for():
    made = plan("mps", replace(seat("embed"), together=2), seat("chat"))
    config = files_for("triton", made)["triton/embed/embed/config.pbtxt"]
    assert "max_batch_size: 4" in config
    assert "max_queue_delay_microseconds: 0" in config
    assert "preferred_batch_size" not in config


def test_triton_configs_parse_as_its_own_protobuf(tmp_path):
    python = interpreter("tritonclient")
    texts = files_for("triton", plan("mps", seat("embed", priority=2), seat("chat")))
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    command = [python, Path(__file__).with_name("triton_configs.py"), *sorted(tmp_path.rglob("config.pbtxt"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=pace.seconds(100), check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["chat", 0, 1], ["embed", 4, 1]], "vLLM batches by itself"


def test_the_device_plugin_gets_the_number_of_replicas_and_refuses_unequal_shares():
    files = files_for("kubernetes-device-plugin", plan("processes", seat("embed"), seat("chat")))
    config = yaml.safe_load(yaml.safe_load(files["device-plugin.yaml"])["data"]["sim-a100-sxm4-80gb"])
    assert config["sharing"]["timeSlicing"]["resources"] == [{"name": "nvidia.com/gpu", "replicas": 2}]
    pods = [one["spec"]["template"]["spec"] for one in yaml.safe_load_all(files["deployments.yaml"])]
    assert pods[0]["nodeSelector"] == {"nvidia.com/gpu.product": "A100-SXM4-80GB"}
    assert pods[0]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu.shared": 1}
    with pytest.raises(CannotExpress, match="unequal MPS shares") as refused:
        files_for("kubernetes-device-plugin", plan("mps", seat("embed", share=60.0), seat("chat", share=40.0)))
    assert refused.value.hint == "export it with --for kubernetes-hami"


def test_hami_holds_tenants_to_unequal_shares_and_their_memory():
    made = plan("mps", seat("embed", share=60.0, gib=3), seat("chat", share=40.0))
    pods = list(yaml.safe_load_all(files_for("kubernetes-hami", made)["hami.yaml"]))
    limits = [pod["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] for pod in pods]
    assert limits[0] == {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3072, "nvidia.com/gpucores": 60}
    assert limits[1]["nvidia.com/gpucores"] == 40
    with pytest.raises(CannotExpress, match="the MIG instances"):
        files_for("kubernetes-hami", plan("mig", seat("embed", share="1g.10gb")))


def test_servers_that_can_t_run_a_tenant_name_those_that_can():
    with pytest.raises(CannotExpress, match="vllm can't express embed, which doesn't generate") as refused:
        files_for("vllm", plan("mps", seat("embed"), seat("chat")))
    assert refused.value.hint == "export it with --for vllm,triton"
    assert "triton/embed/embed/config.pbtxt" in files_for("vllm,triton", plan("mps", seat("embed"), seat("chat")))


@pytest.mark.parametrize(
    ("targets", "problem"),
    [("vlm", "there is no export for 'vlm'"), ("vllm,", "no export for ''"), ("vllm,kubernetes", "can't be combined")],
)
def test_targets_that_don_t_exist_or_go_together_are_refused(targets, problem):
    with pytest.raises(CotenantError, match=problem):
        files_for(targets, plan("alone", seat("chat")))


def test_notes_say_what_a_target_can_t_express_and_the_readme_holds_them():
    made = plan("mps", replace(seat("embed", priority=2)), replace(seat("chat"), software="vllm"))
    notes = " ".join(notes_for("vllm,triton", made))
    assert "embed: planned in eager, exported to Triton, which runs it in onnxruntime" in notes
    assert "chat: planned" not in notes
    assert "priorities are lost" in notes
    assert "put its model at triton/embed/embed/1/model.onnx" in notes
    text = files_for("vllm,triton", made)["README.md"]
    assert all(markdown(note) in text for note in notes_for("vllm,triton", made))
    assert "| embed | embed | sim:a100-sxm4-80gb | MPS |" in text


def test_cluster_exports_start_tenants_one_after_the_other(tmp_path):
    machine = Machine(tmp_path)
    files = files_for("kubernetes", plan("mps", seat("embed"), seat("chat")))
    machine.write(files)
    refused = machine.run("plan.sh", "up")
    assert refused.returncode == 1
    assert "image: REPLACE-WITH-THE-IMAGE-OF/bert-base" in refused.stderr
    machine.write({"kubernetes.yaml": files["kubernetes.yaml"].replace("REPLACE-WITH-THE-IMAGE-OF", "registry")})
    assert machine.run("plan.sh", "up").returncode == 0
    assert machine.run("plan.sh", "down").returncode == 0
    manifest = machine.folder / "kubernetes.yaml"
    assert machine.log.splitlines() == [
        f"kubectl apply -l !app.kubernetes.io/name -f {manifest}",
        f"kubectl apply -l app.kubernetes.io/name=embed -f {manifest}",
        "kubectl rollout status deployment/embed --timeout=3600s",
        f"kubectl apply -l app.kubernetes.io/name=chat -f {manifest}",
        "kubectl rollout status deployment/chat --timeout=3600s",
        f"kubectl delete --ignore-not-found -f {manifest}",
    ]


def test_a_folder_whose_plan_is_up_is_not_overwritten(tmp_path):
    planned = handle(plan("alone", seat("chat")))
    assert planned.export("vllm", tmp_path).paths[0] == tmp_path / "plan.sh"
    (tmp_path / ".state-0").touch()
    with pytest.raises(CotenantError, match="is up"):
        planned.export("vllm", tmp_path)


def test_kubernetes_makes_the_instances_of_a_device_from_one_gpu():
    made = plan("mig", seat("embed", share="1g.10gb"), seat("chat", share="3g.40gb"))
    claim, *deployments = yaml.safe_load_all(files_for("kubernetes", made)["kubernetes.yaml"])
    requests = claim["spec"]["devices"]["requests"]
    assert [one["name"] for one in requests] == ["embed", "chat"]
    assert [one["exactly"]["deviceClassName"] for one in requests] == ["mig.nvidia.com"] * 2
    assert "profile == '3g.40gb'" in requests[1]["exactly"]["selectors"][0]["cel"]["expression"]
    assert claim["spec"]["devices"]["constraints"][0]["matchAttribute"] == "gpu.nvidia.com/parentUUID"
    for one in deployments:
        (container,) = one["spec"]["template"]["spec"]["containers"]
        assert container["resources"]["claims"] == [{"name": "gpu", "request": container["name"]}]


@pytest.mark.parametrize(("sharing", "mode"), [("processes", "time-slicing"), ("mps", "sm-sharing")])
def test_kai_has_memory_limits_and_compute_modes_and_refuses_shares_by_name(sharing, mode):
    isolated = replace(seat("embed", gib=3), isolated=True)
    pods = list(yaml.safe_load_all(files_for("kubernetes-kai", plan(sharing, isolated, seat("chat")))["kai.yaml"]))
    template = pods[0]["spec"]["template"]
    assert template["metadata"]["annotations"] == {
        "nvidia.com/container.embed.gpu-memory.request": "3072Mi",
        "nvidia.com/container.embed.gpu-memory.limit": "3072Mi",
        "nvidia.com/container.embed.gpu-compute.mode": mode,
    }
    assert template["spec"]["schedulerName"] == "kai-scheduler"
    with pytest.raises(CannotExpress, match="compute shares") as refused:
        files_for("kubernetes-kai", plan("mps", seat("embed", share=60.0), seat("chat", share=40.0)))
    assert refused.value.hint == "export it with --for kubernetes-hami"


@pytest.mark.parametrize("sharing", ["scheduled", "green"])
@pytest.mark.parametrize("target", sorted(set(TARGETS) - {"cotenant"}))
def test_only_our_server_orders_requests_and_divides_sms_within_a_process(target, sharing):
    with pytest.raises(CannotExpress, match=f"`{sharing}` on ") as refused:
        files_for(target, plan(sharing, seat("embed"), seat("chat")))
    assert refused.value.hint == "export it with --for cotenant"
