"""Measured tables of kernels calibrate a simulated GPU, in a file that every verb takes as a device."""

import csv

import numpy as np
import pytest
from click.testing import CliRunner

from cotenant.api.calibrate import calibrate_tables
from cotenant.cli.main import cli
from cotenant.devices.simulated.gpu_file import calibration_text
from cotenant.devices.simulated.simulated_gpu import open_simulated
from cotenant.errors import DeviceError
from cotenant.planning.mixes.tenants import planned
from cotenant.planning.predictors.profiles import Simulation
from cotenant.prediction.calibration.kernel_tables import (
    decoding_times,
    expert_times,
    fit_kernels,
    product_times,
    prompt_times,
)
from cotenant.prediction.contention.layout import whole_of
from cotenant.prediction.engines.step import StepShape
from cotenant.prediction.kernels.families import family_of
from cotenant.tenancy.tenant_entry import TenantEntry
from cotenant.workloads.protocol import WorkloadSpec

DEVICE = "sim:a100-sxm4-80gb"
GPU = open_simulated(DEVICE).gpu
FAMILY = family_of(GPU.architecture)
SHAPES = {
    "gemm": {"m": [1, 8, 64, 512, 2048] * 4, "n": [4096] * 10 + [14336] * 10, "k": [4096, 2048] * 10},
    "context_attention": {"batch_size": [1, 4] * 5, "isl": [128, 256, 512, 1024, 4096] * 2},
    "generation_attention": {"batch_size": [1, 8, 64, 128, 32] * 2, "step": [256, 512, 1024, 4096, 8192] * 2},
    "moe": {"num_tokens": [1, 8, 64, 256, 1024] * 2, "hidden_size": [4096] * 10},
}
SAME = {
    "gemm": {"gemm_dtype": "bfloat16"},
    "context_attention": {"num_heads": 32, "num_key_value_heads": 8, "head_dim": 128},
    "generation_attention": {"num_heads": 32, "num_key_value_heads": 8, "head_dim": 128},
    "moe": {"moe_dtype": "bfloat16", "inter_size": 14336, "topk": 2, "num_experts": 8, "moe_tp_size": 1,
            "moe_ep_size": 1, "distribution": "balanced"},
}  # fmt: skip
SPEC = WorkloadSpec(name="llama-3.2-3b", mode="generate", software="vllm", dtype="bfloat16", seq=512, tokens=32)


def table(operation, times=1.0, added_us=0.0):
    """Kernels that take so many times what their law says, and so much longer."""
    rows = len(next(iter(SHAPES[operation].values())))
    columns = {name: np.array(values) for name, values in SHAPES[operation].items()}
    columns |= {name: np.array([value] * rows) for name, value in SAME[operation].items()}
    law = {
        "gemm": lambda: product_times(GPU, FAMILY, "half", columns),
        "context_attention": lambda: prompt_times(GPU, FAMILY, columns),
        "generation_attention": lambda: decoding_times(GPU, FAMILY, columns),
        "moe": lambda: expert_times(GPU, FAMILY, "half", columns),
    }[operation]()[0]
    return columns | {"latency": (law * times + added_us * 1e3) / 1e6}


def written(folder, name, operation, columns, device="NVIDIA A100-SXM4-80GB"):
    with (folder / name).open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["op_name", "device", *columns])
        rows.writerows([operation, device, *row] for row in zip(*columns.values(), strict=True))


def test_each_kind_of_kernel_has_the_scale_of_its_table():
    true = {"gemm": (1.3, 4.0), "context_attention": (0.8, 2.0), "generation_attention": (1.5, 0.0), "moe": (2.0, 30.0)}
    fitted = fit_kernels(GPU, {operation: table(operation, *scale) for operation, scale in true.items()})
    scales = {kernels.kind: (kernels.scale.times, kernels.scale.added_us) for kernels in fitted}
    for kind, operation in zip(("products", "prompts", "decoding", "experts"), true, strict=True):
        assert scales[kind] == pytest.approx(true[operation], rel=1e-3, abs=1e-3), kind
    assert all(kernels.held_out < 1e-3 < kernels.before for kernels in fitted)


def test_a_written_gpu_changes_what_plans_runs_and_servers_simulate(tmp_path):
    for operation in ("gemm", "generation_attention"):
        written(tmp_path, f"{operation}.csv", operation, table(operation, 2.0))
    written(tmp_path, "other.csv", "gemm", table("gemm", 9.0), device="NVIDIA H100 80GB HBM3")
    found = calibrate_tables(tmp_path, device=DEVICE)
    assert {kernels.kind for kernels in found.kernels} == {"products", "decoding"}
    path = tmp_path / "mine.yaml"
    path.write_text(calibration_text(found, path))
    plain, mine = open_simulated(DEVICE), open_simulated(f"sim:{path}")
    decode = StepShape(32, 32 * 600.0)
    times = [gpu.engine_step(SPEC, whole_of(GPU), decode).duration_ns.sum() for gpu in (plain, mine)]
    assert 1.7 < times[1] / times[0] < 2.05
    entry = TenantEntry.model_validate(
        {"workload": SPEC.name, "software": "vllm", "seq": 512, "tokens": 32, "rate": "1/s"}
    )
    simulation = Simulation(
        planned({"chat": entry}), {"chat": entry}, {gpu.name: gpu for gpu in (plain, mine)}, risk=0.1
    )
    profiles = [simulation.profile(gpu.name, 0, 1) for gpu in (plain, mine)]
    assert 1.5 < profiles[1].step_ms / profiles[0].step_ms < 2.05


def test_probes_in_a_gpus_file_calibrate_it_for_every_verb(tmp_path):
    """What clients of a slower engine saw, written down once, slows an engine of a plan down."""
    probes = "".join(
        f"- {{workload: llama-3.2-3b, software: vllm, ms: {ttft + 31 * tpot}, seq: {seq}, tokens: 32, "
        f"in_flight: {count}, ttft_ms: {ttft}, tpot_ms: {tpot}}}\n"
        for seq, count, ttft, tpot in ((64, 1, 60, 30), (512, 1, 90, 30), (64, 8, 70, 33), (512, 16, 300, 40))
    )
    path = tmp_path / "slow.yaml"
    path.write_text(f"like: {GPU.name}\nsolo_ms:\n{probes}")
    plain, slow = (open_simulated(name).engine_queue(SPEC, whole_of(GPU)) for name in (DEVICE, f"sim:{path}"))
    assert slow.profile.step_us > 5 * plain.profile.step_us
    assert open_simulated(f"sim:{path}").controls({}).solo_ms[0].probe


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"latency": [-1.0] * 20}, "row 1: `latency` is -1"),
        ({"latency": ["soon"] * 20}, "the column 'latency' isn't of numbers"),
        ({"m": None}, "has no column 'm', which rows of gemm need"),
        ({"latency": [5e9] * 20}, "times what NVIDIA A100-SXM4-80GB is simulated to need"),
    ],
)
def test_a_table_that_cant_be_used_is_refused_in_one_sentence(tmp_path, change, message):
    columns = {name: values for name, values in (table("gemm") | change).items() if values is not None}
    written(tmp_path, "gemm.csv", "gemm", columns)
    with pytest.raises(DeviceError) as refused:
        calibrate_tables(tmp_path, device=DEVICE)
    assert message in str(refused.value)


def test_folders_without_tables_of_the_gpu_and_wrong_files_are_named(tmp_path):
    with pytest.raises(DeviceError, match="has no tables of kernels"):
        calibrate_tables(tmp_path, device=DEVICE)
    written(tmp_path, "gemm.csv", "gemm", table("gemm"), device="NVIDIA H100 80GB HBM3")
    with pytest.raises(DeviceError, match="they are of NVIDIA H100 80GB HBM3"):
        calibrate_tables(tmp_path, device=DEVICE)
    written(tmp_path, "gemm.csv", "gemm", table("gemm"))
    shared = ["calibrate", "--tables", str(tmp_path), "--device", DEVICE, "--out"]
    assert "kernels can't be written to" in str(CliRunner().invoke(cli, [*shared, str(tmp_path / "x.csv")]).exception)
    assert CliRunner().invoke(cli, [*shared, str(tmp_path / "x.yaml")]).exit_code == 0
    (tmp_path / "x.yaml").write_text(f"like: {GPU.name}\nkernels: {{convolutions: {{times: 2}}}}\n")
    with pytest.raises(DeviceError, match=r"kernels\.convolutions"):
        open_simulated(f"sim:{tmp_path / 'x.yaml'}")
