"""The catalogue of simulated GPUs: complete, consistent, and extensible by the user."""

import pytest

from cotenant.devices.simulated.catalogue import find_gpu, gpu_names
from cotenant.errors import DeviceError

PROMISED = {
    "rtx-2080",
    "t4",
    "k80",
    "p100-sxm2-16gb",
    "v100-sxm2-16gb",
    "v100-sxm2-32gb",
    "v100-pcie-16gb",
    "v100-pcie-32gb",
    "rtx-3090",
    "rtx-a5000",
    "a40",
    "a30",
    "a100-sxm4-40gb",
    "a100-sxm4-80gb",
    "a100-pcie-40gb",
    "a100-pcie-80gb",
    "rtx-4090",
    "l4",
    "l40s",
    "h100-sxm5-80gb",
    "h100-pcie-80gb",
    "jetson-xavier-agx",
    "jetson-orin-agx",
    "h200-sxm5-141gb",
    "b200-sxm-180gb",
    "rtx-5090",
    "rtx-pro-6000",
    "a10g",
    "rtx-2080-ti",
    "l40",
    "mi300x",
}
LANES = {
    "3.7": 192,
    "6.0": 64,
    "7.0": 64,
    "7.2": 64,
    "7.5": 64,
    "8.0": 64,
    "8.6": 128,
    "8.7": 128,
    "8.9": 128,
    "9.0": 128,
    "9.4": 128,
    "10.0": 128,
    "12.0": 128,
}
"""float32 lanes of an SM, by compute capability."""


def test_every_documented_gpu_exists():
    assert set(gpu_names()) >= PROMISED


@pytest.mark.parametrize("name", gpu_names())
def test_a_gpu_is_consistent_with_itself(name):
    gpu = find_gpu(name)
    assert gpu.name == name
    assert gpu.sources, "every figure has a source"
    assert gpu.vector_tflops.float32 is not None
    peak = LANES[gpu.compute_capability] * gpu.sms * 2 * gpu.clocks_mhz.boost * 1e-6
    # The H100's peak is stated at a higher clock than its tensor cores run at.
    assert gpu.vector_tflops.float32 == pytest.approx(peak, rel=0.1)
    assert gpu.power.idle_w < gpu.power.min_limit_w <= gpu.power.limit_w
    assert gpu.clocks_mhz.min < gpu.power.knee_mhz < gpu.clocks_mhz.boost
    assert gpu.sensor.window_ms > 0


@pytest.mark.parametrize("name", [name for name in gpu_names() if find_gpu(name).mig])
def test_mig_profiles_fit_into_their_gpu(name):
    gpu = find_gpu(name)
    assert gpu.mig is not None
    for profile in gpu.mig.profiles.values():
        assert profile.sms * profile.instances <= gpu.sms
        assert profile.memory_slices * profile.instances <= gpu.mig.memory_slices
        assert profile.memory_gib * profile.instances <= gpu.memory_gib + 0.2


def test_a_name_may_carry_the_prefix_of_devices():
    assert find_gpu("sim:t4") is find_gpu("t4")


def test_an_unknown_gpu_gets_the_nearest_names():
    with pytest.raises(DeviceError, match="there is no simulated GPU 'a100-40gb'") as error:
        find_gpu("sim:a100-40gb")
    assert "a100-pcie-40gb" in error.value.hint


def test_the_first_word_of_a_name_is_answered_with_its_versions():
    with pytest.raises(DeviceError) as error:
        find_gpu("sim:a100")
    assert "choose from a100-pcie-40gb, a100-pcie-80gb, a100-sxm4-40gb, a100-sxm4-80gb." in error.value.hint


def test_a_file_states_only_what_differs(tmp_path):
    path = tmp_path / "My GPU.yaml"
    path.write_text("like: a100-sxm4-40gb\ntitle: half an A100\nsms: 54\npower: {limit_w: 250}\n")
    gpu = find_gpu(f"sim:{path}")
    assert (gpu.name, gpu.sms, gpu.power.limit_w) == ("my-gpu", 54, 250)
    assert gpu.power.idle_w == find_gpu("a100-sxm4-40gb").power.idle_w
    assert gpu.mig is not None
    assert {name: profile.sms for name, profile in gpu.mig.profiles.items()}["7g.40gb"] == 49


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("like: a100-sxm4-40gb\nsms: -3\n", "`sms`: input should be greater than 0"),
        ("like: a100-sxm4-40gb\nsmz: 3\n", "`smz` is not a known key"),
        ("sms: 3\n", "`title` is missing"),
        ("like: b200\n", "`like: b200` is not in the catalogue"),
        ("like: t4\nestimated: [colour]\n", "names 'colour'"),
        ("like: t4\nclocks_mhz: {base: 5000}\n", "clocks must satisfy"),
        ("like: t4\npower: {limit_w: 30}\n", "power must satisfy"),
        ("like: a30\nmig: {profiles: {4g.24gb: {sms: 99}}}\n", "`mig.profiles.4g.24gb.compute_slices` is missing"),
        ("- 3\n", "expected keys and values"),
        ("sms: [\n", "is not YAML"),
    ],
)
def test_an_invalid_file_is_refused_in_one_sentence(tmp_path, text, sentence):
    path = tmp_path / "gpu.yaml"
    path.write_text(text)
    with pytest.raises(DeviceError) as error:
        find_gpu(f"sim:{path}")
    assert sentence in error.value.message
    assert str(path) in error.value.message


def test_an_instance_has_no_more_sms_than_its_gpu(tmp_path):
    path = tmp_path / "gpu.yaml"
    instance = "{sms: 99, compute_slices: 4, memory_slices: 4, memory_gib: 23, instances: 1}"
    path.write_text(f"like: a30\nmig: {{profiles: {{4g.24gb: {instance}}}}}\n")
    with pytest.raises(DeviceError, match=r"the MIG instance 4g\.24gb has 99 SMs, but the GPU only 56"):
        find_gpu(f"sim:{path}")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DeviceError, match="can't read"):
        find_gpu(f"sim:{tmp_path / 'none.yaml'}")
