"""A GPU as a device: found by index or UUID, described, seated; and other makers' devices, with what they lack."""

import sys
import types

import pytest

from cotenant.devices import find_device, list_devices
from cotenant.devices.nvidia import accelerator, green_contexts, nvml, torch_side
from cotenant.devices.nvidia.seat import GpuSeat
from cotenant.devices.nvidia.tools import TorchBuild, torch_build
from cotenant.errors import DeviceError, SharingUnavailable
from cotenant.measure.fit import says_out_of_memory
from cotenant.tenancy.sharing import Sharing

MARK = "[torch on cpu]"
OPTIONS = {"kind": "cuda", "index": 0, "threads": 1, "dtype": "float16"}
ARC = {"name": "Arc B580", "uuid": None, "memory_bytes": 12 << 30, "free_memory_bytes": 11 << 30}


class TestNames:
    def test_by_index_by_uuid_and_by_prefix(self, gpus):
        uuid = nvml.find(1).uuid
        assert find_device("cuda").name == f"cuda:0{MARK}"
        assert find_device("cuda:1").name == f"cuda:1{MARK}"
        assert find_device(f"cuda:{uuid}").name == f"cuda:{uuid}{MARK}"
        assert find_device(uuid.replace("GPU-", "cuda:GPU-")[:20]).gpu.uuid == uuid

    def test_a_name_from_the_records_finds_the_device_again(self, gpus):
        name = find_device("cuda:1").name
        assert find_device(name).name == name

    def test_but_not_as_if_it_were_the_real_gpu(self, gpus, monkeypatch):
        monkeypatch.delenv("COTENANT_TORCH_DEVICE")
        assert find_device("cuda:1").name == "cuda:1"
        with pytest.raises(DeviceError, match="was recorded with torch on the CPU") as error:
            find_device(f"cuda:1{MARK}")
        assert "COTENANT_TORCH_DEVICE=cpu" in error.value.hint

    @pytest.mark.parametrize("name", ["cuda:3", "cuda:x", "cuda:GPU-nobody"])
    def test_a_wrong_name_lists_the_available_ones(self, gpus, name):
        with pytest.raises(DeviceError, match="there is no device") as error:
            find_device(name)
        assert "Tesla V100-SXM2-16GB" in error.value.hint
        assert "\n" not in error.value.message

    def test_without_a_driver_the_hint_names_alternatives(self, gpus):
        gpus.set_system(init_error=9)
        with pytest.raises(DeviceError, match="no matching driver is loaded") as error:
            find_device("cuda:0")
        assert "sim:a100-sxm4-40gb" in error.value.hint

    def test_the_list_of_devices_includes_them(self, gpus, tools):
        names = [info.name for info in list_devices() if not info.simulated]
        assert names == ["cpu", *(f"cuda:{index}{MARK}" for index in range(3))]

    def test_the_seam_accepts_no_other_value(self, gpus, monkeypatch):
        monkeypatch.setenv("COTENANT_TORCH_DEVICE", "cuda:0")
        with pytest.raises(DeviceError, match="only 'cpu' is supported"):
            find_device("cuda:0")


class TestDescription:
    @pytest.mark.parametrize(("name", "dtype"), [("cuda:0", "float16"), ("cuda:1", "bfloat16"), ("cuda:2", "bfloat16")])
    def test_the_default_number_format_is_the_tensor_cores(self, gpus, name, dtype):
        device = find_device(name)
        assert device.default_dtype == dtype
        assert dtype in device.describe()["tensor_cores_for"]

    def test_the_manifest_names_sources_and_that_torch_ran_on_the_cpu(self, gpus, tools):
        described = find_device("cuda:1").describe()
        assert "nothing was computed on the GPU" in described["torch_side"]
        assert described["power_sensor"]["window_s"] == 0.025
        assert any(sentence.startswith("energy from NVML energy counter") for sentence in described["sources"])

    def test_two_devices_on_one_gpu_cannot_be_measured_at_once(self, gpus):
        assert find_device("cuda:1").lock_keys() == find_device(f"cuda:{nvml.find(1).uuid}").lock_keys()

    def test_each_metric_has_one_source(self, gpus, tools):
        tools.setenv("FAKE_DCGMI", "ok")
        device = find_device("cuda:0")
        names = [info.name for probe in device.probes() for info in probe.sensors]
        assert len(names) == len(set(names))
        assert "sm_active" in names
        device.activity().probe.close()


class TestSettings:
    def test_a_clock_out_of_range_is_refused_before_anything_starts(self, gpus):
        with pytest.raises(DeviceError, match="has no SM clock of 9000 MHz"):
            find_device("cuda:1").absolute({"sm_clock_mhz": 9000})

    def test_shares_of_limits_become_numbers_and_the_flush_stays(self, gpus):
        device = find_device("cuda:1")
        assert device.absolute({"power_limit_w": "50%", "flush_l2": True}) == {"power_limit_w": 200.0, "flush_l2": True}
        with pytest.raises(DeviceError, match="flush_l2 is true or false"):
            device.absolute({"flush_l2": "yes"})

    def test_the_flush_reaches_the_tenants_while_it_is_set(self, gpus, tenants):
        device = find_device("cuda:1")
        with device.apply({"flush_l2": True}):
            [host] = device.arrange(Sharing(mode="alone"), tenants("a")).hosts
        assert host.seats[0].options["flush_l2"] is True
        [host] = device.arrange(Sharing(mode="alone"), tenants("a")).hosts
        assert host.seats[0].options["flush_l2"] is False


class TestSeat:
    def test_on_the_seam_it_says_so(self, gpus):
        seat = GpuSeat(OPTIONS)
        with seat.occupy():
            begin = seat.mark()
            end = seat.mark()
            seat.synchronise()
        assert seat.elapsed_ns(begin, end) >= 0
        assert seat.torch_device == "cpu"
        assert seat.default_dtype == "float32"
        assert seat.observed()["torch_side"] == "cpu"
        assert "torch side on cpu" in seat.observed()["device_clock"]
        assert seat.memory_bytes() > 0

    def test_the_cache_is_flushed_once_before_each_request(self, gpus, monkeypatch):
        seat = GpuSeat({**OPTIONS, "flush_l2": True})
        flushed = []
        monkeypatch.setattr(seat._side, "flush_l2", lambda: flushed.append(1))
        for _ in range(3):
            begin = seat.mark()
            seat.synchronise()  # after a stage, as a synchronised tenant does
            end = seat.mark()
            seat.synchronise()
            seat.elapsed_ns(begin, end)
        assert len(flushed) == 3

    def test_a_torch_without_cuda_is_refused_in_one_sentence(self, gpus, monkeypatch):
        monkeypatch.delenv("COTENANT_TORCH_DEVICE")
        with pytest.raises(DeviceError, match="finds only a CPU, but no cuda device"):
            GpuSeat(OPTIONS)


class FakeStream:
    def __init__(self, device=None, priority=0):
        self.priority = priority

    def synchronize(self):
        pass


class FakeExternalStream(FakeStream):
    def __init__(self, address, device):
        super().__init__(device)
        self.address, self.device = address, device


class FakeEvent:
    now = 0.0

    def __init__(self, device, enable_timing):
        assert enable_timing

    def record(self, stream):
        FakeEvent.now += 1.5
        self.at = FakeEvent.now

    def elapsed_time(self, other):
        return other.at - self.at


class FakeTorch(types.SimpleNamespace):
    """The parts of torch needed to see which accelerator functions are called, and how."""

    def __init__(self, kind):
        properties = types.SimpleNamespace(name="A card", max_compute_units=64, L2_cache_size=1 << 20)
        module = types.SimpleNamespace(
            get_device_properties=lambda index: properties,
            mem_get_info=lambda index: (3 << 30, 4 << 30),
            max_memory_reserved=lambda index: 77,
        )
        self.streams = []
        accelerator = types.SimpleNamespace(
            current_accelerator=lambda check_available: types.SimpleNamespace(type=kind),
            set_device_index=lambda index: None,
            current_stream=lambda index: FakeStream(),
            set_stream=self.streams.append,
        )
        super().__init__(
            __version__="9.9",
            accelerator=accelerator,
            get_device_module=lambda kind: module,
            Stream=FakeStream,
            Event=FakeEvent,
            get_float32_matmul_precision=lambda: "highest",
        )


class TestTorchSide:
    @pytest.fixture
    def xpu(self, monkeypatch):
        fake = FakeTorch("xpu")
        monkeypatch.setitem(sys.modules, "torch", fake)
        return fake

    def test_device_time_is_between_events_on_the_tenants_stream(self, xpu):
        side = torch_side.OnAccelerator("xpu", 0)
        with side.entered(stream=True, priority=2, green=None):
            begin, end = side.mark(), side.mark()
            side.synchronise()
        assert side.elapsed_ns(begin, end) == 1_500_000
        assert xpu.streams[0].priority == -2  # torch counts down
        assert xpu.streams[-1].priority == 0  # afterwards the thread's stream is restored

    def test_a_green_context_uses_its_own_stream_and_reports_the_drivers_sms(self, monkeypatch):
        fake = FakeTorch("cuda")
        fake.get_device_module("cuda").ExternalStream = FakeExternalStream
        monkeypatch.setitem(sys.modules, "torch", fake)
        made = (green_contexts.SmPartition(stream=0x1000, sms=64), green_contexts.SmPartition(stream=0x2000, sms=48))
        monkeypatch.setattr(green_contexts, "parts", lambda index, sms: {(0, (64, 42)): made}[index, sms])
        side = torch_side.OnAccelerator("cuda", 0)
        assert side.facts()["green_sms"] is None
        with side.entered(stream=False, priority=0, green=torch_side.Green((64, 42), 1)):
            side.mark()
            assert side.facts()["green_sms"] == 48
        assert (fake.streams[0].address, fake.streams[0].device) == (0x2000, "cuda:0")

    def test_memory_and_facts_work_without_cuda_features(self, xpu):
        side = torch_side.OnAccelerator("xpu", 0)
        assert side.peak_memory_bytes() == 77
        facts = side.facts()
        assert (facts["sms"], facts["uuid"], facts["memory_bytes"]) == (64, None, 4 << 30)

    @pytest.mark.parametrize(
        "words",
        [
            "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB",
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "RuntimeError: HIP error: hipErrorOutOfMemory",
            "RuntimeError: level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
        ],
    )
    def test_running_out_of_memory_is_recognised_by_its_message(self, words):
        assert says_out_of_memory(words)
        assert not says_out_of_memory("RuntimeError: CUDA error: device-side assert triggered")


class TestTorchBuild:
    def test_the_installed_one(self):
        build = torch_build()
        assert build.version
        assert (build.kind is None) == (build.built_for == "CPUs only")

    def test_the_target_of_a_build_is_read_from_its_files(self, tmp_path):
        text = "__version__ = '2.13.0+cu128'\ncuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n"
        (tmp_path / "version.py").write_text(text)
        assert torch_build(tmp_path) == TorchBuild("2.13.0+cu128", cuda="12.8")
        (tmp_path / "version.py").write_text("__version__ = '2.13.0+rocm6.4'\ncuda = None\nhip = '6.4'\n")
        assert torch_build(tmp_path).built_for == "ROCm 6.4"
        assert torch_build(tmp_path).kind == "cuda"


class TestOtherMakers:
    @pytest.fixture
    def arc(self, monkeypatch):
        monkeypatch.setattr(accelerator, "torch_build", lambda: TorchBuild("2.13.0+xpu", xpu="2025.2"))
        monkeypatch.setattr(torch_side, "look", lambda kind: (ARC,))
        return find_device("xpu:0")

    def test_it_reports_what_it_lacks(self, arc):
        assert {mode.mode for mode in arc.sharings() if mode.available} == {"processes", "streams"}
        assert any("no power" in sentence for sentence in arc.describe()["sources"])
        assert {one.subject: one.state for one in arc.checkup()}["sensors"] == "note"
        assert arc.probes() == ()

    def test_tenants_are_seated_at_torchs_index(self, arc, tenants):
        hosts = arc.arrange(Sharing(mode="processes"), tenants("a", "b")).hosts
        assert [host.seats[0].options["kind"] for host in hosts] == ["xpu", "xpu"]
        [host] = arc.arrange(Sharing(mode="streams"), tenants("a", "b")).hosts
        assert len(host.seats) == 2

    def test_nvidia_only_features_are_refused(self, arc, tenants):
        with pytest.raises(SharingUnavailable, match="needs an NVIDIA card"):
            arc.arrange(Sharing(mode="mps"), tenants("a", "b"))
        with pytest.raises(DeviceError, match="no control 'power_limit_w'"):
            arc.apply({"power_limit_w": 100})

    def test_a_torch_built_for_something_else_is_reported(self):
        with pytest.raises(DeviceError, match="the installed torch is built for"):
            find_device("rocm:0")
