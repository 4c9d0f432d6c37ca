"""A driver mock: libnvidia-ml.so.1 compiled from C, with GPUs, load and faults set by the test.

The unmodified nvidia-ml-py loads it: in this process because a library of that name is already mapped, in others
through LD_LIBRARY_PATH. See README.md.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent / "source"
LIBRARY = "libnvidia-ml.so.1"
FUNCTION_NOT_FOUND, NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED = 13, 3, 4, 9

_COMMON = {
    "serial": "0325018000001", "used_mib": 0, "persistence": 1, "ecc": 1, "mig": -1, "gpm": 0, "mem_lockable": 1,
    "averages": 0, "cores": 0, "die_dynamic": 1.0, "die_leakage": 1.0, "fast_c_per_w": 0.05, "fast_s": 0.2,
    "slow_s": 15, "noise_w": 0.3, "load": 0, "tensor": 0.5, "dram": 0.4, "stuck_w": -1, "gain": 1, "lost": 0,
    "power_brake": 0, "energy_epoch": 0,
}  # fmt: skip
V100 = {
    **_COMMON, "name": "Tesla V100-SXM2-16GB", "arch": 5, "cc_major": 7, "cc_minor": 0, "sms": 80, "cores": 5120,
    "memory_mib": 16160, "mem_lockable": 0, "clock_min": 135, "clock_base": 1312, "clock_boost": 1530,
    "clock_idle": 135, "mem_clock": 877, "clock_step": 7.5, "limit_min_w": 150, "limit_default_w": 300,
    "limit_max_w": 300, "idle_w": 42, "busy_w": 325, "knee_mhz": 950, "leak_w_per_c": 0.4, "ambient_c": 24,
    "slow_c_per_w": 0.09, "slowdown_c": 87, "update_s": 0.02, "window_s": 0.01,
}  # fmt: skip
A100 = {
    **_COMMON, "name": "NVIDIA A100-SXM4-40GB", "arch": 7, "cc_major": 8, "cc_minor": 0, "sms": 108, "cores": 6912,
    "memory_mib": 40960, "mig": 0, "clock_min": 210, "clock_base": 1095, "clock_boost": 1410, "clock_idle": 210,
    "mem_clock": 1215, "clock_step": 15, "limit_min_w": 100, "limit_default_w": 400, "limit_max_w": 400,
    "idle_w": 52, "busy_w": 350, "knee_mhz": 1050, "leak_w_per_c": 0.35, "ambient_c": 27, "slow_c_per_w": 0.06,
    "slowdown_c": 90, "update_s": 0.1, "window_s": 0.025,
}  # fmt: skip
H100 = {
    **_COMMON, "name": "NVIDIA H100 80GB HBM3", "arch": 9, "cc_major": 9, "cc_minor": 0, "sms": 132, "cores": 16896,
    "memory_mib": 81559, "mig": 0, "gpm": 1, "averages": 1, "clock_min": 345, "clock_base": 1590,
    "clock_boost": 1980, "clock_idle": 345, "mem_clock": 2619, "clock_step": 15, "limit_min_w": 200,
    "limit_default_w": 700, "limit_max_w": 700, "idle_w": 70, "busy_w": 640, "knee_mhz": 1300, "leak_w_per_c": 0.5,
    "ambient_c": 27, "slow_c_per_w": 0.035, "fast_c_per_w": 0.03, "slowdown_c": 87, "update_s": 0.1,
    "window_s": 0.025,
}  # fmt: skip
RTX4090 = {
    **_COMMON, "name": "NVIDIA GeForce RTX 4090", "arch": 8, "cc_major": 8, "cc_minor": 9, "sms": 128,
    "cores": 16384, "memory_mib": 24564, "ecc": 0, "persistence": 0, "averages": 1, "clock_min": 210,
    "clock_base": 2235, "clock_boost": 2520, "clock_idle": 210, "mem_clock": 10501, "clock_step": 15,
    "limit_min_w": 150, "limit_default_w": 450, "limit_max_w": 600, "idle_w": 20, "busy_w": 400, "knee_mhz": 1800,
    "leak_w_per_c": 0.3, "ambient_c": 26, "slow_c_per_w": 0.06, "slowdown_c": 84, "update_s": 0.1, "window_s": 0.1,
}  # fmt: skip
KINDS = {"v100": V100, "a100": A100, "h100": H100, "rtx4090": RTX4090}


def build(folder: Path, *, without: Sequence[str] = ()) -> Path:
    """Compile the library into ``folder``, omitting the functions in ``without``, as in an older driver."""
    folder.mkdir(parents=True, exist_ok=True)
    library, hidden = folder / LIBRARY, folder / "hidden"
    names = " ".join(f"{name};" for name in (*without, "nothing_of_that_name"))
    hidden.write_text(f"{{ local: {names} }};\n")
    command = [
        compiler() or "cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden",
        *os.environ.get("NVML_MOCK_FLAGS", "").split(),
        f"-Wl,-soname,{LIBRARY}", f"-Wl,--version-script={hidden}", "-o", str(library),
        *sorted(map(str, SOURCE.glob("*.c"))), "-lm", "-lpthread",
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return library


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


class MockNvml:
    """One machine's GPUs. The next call of any process sees every change."""

    def __init__(self, folder: Path, library: Path, kinds: Sequence[str] = ("v100", "a100", "h100")) -> None:
        self.folder, self.library = folder, library
        self.system: dict[str, object] = {"driver": "550.54.15", "nvml": "12.550.54.15", "cuda": 12040, "root": 1}
        self.failing: dict[str, int] = {}
        self.gpus: list[dict[str, object]] = []
        (folder / "clients").mkdir(parents=True, exist_ok=True)
        self.install(*kinds)

    def install(self, *kinds: str) -> None:
        """Install these GPUs: `v100`, `a100`, `h100`, `rtx4090`."""
        self.gpus = [
            {
                **KINDS[kind],
                "uuid": f"GPU-{index:08x}-c07e-4a11-8b1d-{index:012x}",
                "pci": f"00000000:{0x10 + index:02X}:00.0",
                "processes": [],
                "instances": [],
            }
            for index, kind in enumerate(kinds)
        ]
        self._write()

    def change(self, index: int, **values: object) -> None:
        """Change a GPU: `load=1`, `die_dynamic=1.05`, `lost=1`, `stuck_w=46.19`, `processes=[(pid, bytes)]`, ..."""
        unknown = set(values) - set(self.gpus[index])
        assert not unknown, f"the mock has no {unknown}"
        self.gpus[index].update(values)
        self._write()

    def set_system(self, **values: object) -> None:
        """Change the machine: `root=0` (setters fail), `init_error=9` (driver not loaded), `driver`, `cuda`."""
        self.system.update(values)
        self._write()

    def fail(self, function: str, code: int) -> None:
        """Make this function return this error from now on (0: works again); 13 stands for a missing symbol."""
        self.failing[function] = code
        self._write()

    def reset_energy(self, index: int) -> None:
        """Reset the counter to 0, as after a driver reload."""
        self.change(index, energy_epoch=int(str(self.gpus[index]["energy_epoch"])) + 1)

    def add_instance(self, index: int, profile: str, *, sms: int, slices: int, memory_mib: int) -> str:
        """Add a MIG instance, visible while MIG is on; return its UUID."""
        have = list(self.gpus[index]["instances"])  # type: ignore[call-overload]
        uuid = f"MIG-{index:08x}-{len(have):04x}-5a11-8b1d-{index:012x}"
        have.append((profile, uuid, len(have) + 1, 0, sms, slices, memory_mib))
        self.change(index, instances=have)
        return uuid

    def occupy(
        self, index: int, pid: int, *, memory_bytes: int = 0, load: float = 0.0, mps: bool = False, instance: int = -1
    ) -> None:
        """Let a process work on a GPU while it lives or until `vacate`; loads add up to at most 1.

        ``mps``: as a client of MPS. ``instance``: in the MIG instance of this number, counted from 1.
        """
        occupy(self.folder, index, pid, memory_bytes=memory_bytes, load=load, mps=mps, instance=instance)

    def vacate(self, pid: int) -> None:
        """Remove the process from the GPU."""
        (self.folder / "clients" / str(pid)).unlink(missing_ok=True)
        _touch(self.folder / "clients")

    def env(self, library: Path | None = None) -> dict[str, str]:
        """Environment through which another process uses this driver."""
        return {"NVML_MOCK": str(self.folder), "LD_LIBRARY_PATH": str((library or self.library).parent)}

    def _write(self) -> None:
        lines = [f"{key} {value}" for key, value in self.system.items()]
        lines += [f"fails {function} {code}" for function, code in self.failing.items() if code]
        for gpu in self.gpus:
            lines.append("gpu")
            lines += [f"{key} {value}" for key, value in gpu.items() if key not in {"processes", "instances"}]
            lines += [f"process {pid} {size}" for pid, size in gpu["processes"]]  # type: ignore[attr-defined]
            lines += ["instance " + " ".join(map(str, each)) for each in gpu["instances"]]  # type: ignore[attr-defined]
        new = self.folder / ".scenario"
        new.write_text("\n".join(lines) + "\n")
        _touch(new)
        new.replace(self.folder / "scenario")


def occupy(
    folder: Path, index: int, pid: int, *, memory_bytes: int = 0, load: float = 0.0, mps: bool = False,
    instance: int = -1,
) -> None:  # fmt: skip
    """Like the method, for processes that only know the folder ($NVML_MOCK)."""
    new = folder / "clients" / f".{pid}"
    new.write_text(f"{index} {memory_bytes} {load} {int(mps)} {instance}\n")
    new.replace(folder / "clients" / str(pid))
    _touch(folder / "clients")


def _touch(path: Path) -> None:
    """File systems store coarse times; the mock compares nanoseconds to see a change."""
    now = time.time_ns()
    os.utime(path, ns=(now, now))


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled library, mapped into this process."""
    if compiler() is None:
        pytest.skip("no C compiler to build the NVML mock with")
    library = build(tmp_path_factory.mktemp("nvml"))
    ctypes.CDLL(str(library))
    return library


@pytest.fixture
def mock_nvml(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MockNvml]:
    """A V100, an A100 and an H100, idle, for this process; `mock_nvml.env()` for others."""
    mock = MockNvml(tmp_path / "nvml_mock", nvml_library)
    monkeypatch.setenv("NVML_MOCK", str(mock.folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # where a run notes the controls it changed
    _forget_driver()
    yield mock
    _forget_driver()


def _forget_driver() -> None:
    """Drop what the bindings and cotenant cached of another test's driver."""
    import pynvml

    module = sys.modules.get("cotenant.devices.nvidia.nvml")
    if module is not None:
        module.forget()
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache.clear()


def main() -> None:
    """`python mock_nvml.py FOLDER v100 a100 ...`: a machine for manual experiments; prints the variables to export."""
    folder = Path(sys.argv[1]).absolute()
    mock = MockNvml(folder / "machine", build(folder / "lib"), sys.argv[2:] or ["v100", "a100", "h100"])
    sys.stdout.write("".join(f"export {key}={value}\n" for key, value in mock.env().items()))


if __name__ == "__main__":
    main()
