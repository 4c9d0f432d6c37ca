"""Facts about the machine: processor, caches, memory, kernel, virtualisation, versions."""

import os
import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from cotenant.devices.cpu.cgroup import quota_cores
from cotenant.devices.cpu.cores import Cores, numa_nodes, parse_cores, physical_cores
from cotenant.devices.tree import FileTree
from cotenant.workloads.protocol import Dtype

_BF16_FLAGS = frozenset({"amx_bf16", "avx512_bf16"})
_CPUFREQ = "/sys/devices/system/cpu/cpu{core}/cpufreq/{name}"


def cpuinfo(tree: FileTree) -> Mapping[str, str]:
    """The first processor's entries of /proc/cpuinfo."""
    first = (tree.text("/proc/cpuinfo") or "").split("\n\n", 1)[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def flags(tree: FileTree) -> frozenset[str]:
    """Processor features, as the kernel names them."""
    info = cpuinfo(tree)
    return frozenset((info.get("flags") or info.get("Features") or "").split())


def is_virtual(tree: FileTree) -> bool:
    """True in a virtual machine."""
    return "hypervisor" in flags(tree)


def model_name(tree: FileTree) -> str:
    """The processor's name."""
    info = cpuinfo(tree)
    return info.get("model name") or info.get("Model") or platform.machine()


def default_dtype(tree: FileTree) -> Dtype:
    """bfloat16 where the processor multiplies it natively, else float32. Never float16, which CPUs emulate."""
    return "bfloat16" if flags(tree) & _BF16_FLAGS else "float32"


def cache_bytes(tree: FileTree, core: int) -> dict[str, int]:
    """Sizes of the caches a core sees: `L1d`, `L2`, `L3`."""
    sizes = {}
    for folder in tree.glob(f"/sys/devices/system/cpu/cpu{core}/cache/index*"):
        level, kind, size = (tree.text(f"{folder}/{name}") for name in ("level", "type", "size"))
        if level and size and kind != "Instruction":
            scale = {"K": 1 << 10, "M": 1 << 20}.get(size[-1], 1)
            sizes[f"L{level}{'d' if kind == 'Data' and level == '1' else ''}"] = int(size.rstrip("KM")) * scale
    return sizes


def memory_bytes(tree: FileTree, entry: str) -> int | None:
    """One entry of /proc/meminfo, e.g. `MemTotal`."""
    for line in (tree.text("/proc/meminfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name == entry:
            return int(value.split()[0]) * 1024
    return None


def governors(tree: FileTree, cores: Cores) -> tuple[str, ...]:
    """Distinct frequency governors of these cores; empty without a frequency driver."""
    found = (tree.text(_CPUFREQ.format(core=core, name="scaling_governor")) for core in cores)
    return tuple(sorted({governor for governor in found if governor}))


def boost(tree: FileTree) -> bool | None:
    """True if clocks above the base are allowed; None if the machine doesn't say."""
    no_turbo = tree.text("/sys/devices/system/cpu/intel_pstate/no_turbo")
    if no_turbo is not None:
        return no_turbo == "0"
    state = tree.text("/sys/devices/system/cpu/cpufreq/boost")
    return None if state is None else state == "1"


def version_of(package: str) -> str | None:
    """Version of an installed package, without importing it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def describe(tree: FileTree, name: str, cores: Cores) -> dict[str, Any]:
    """JSON-able facts about the device and its machine."""
    info = cpuinfo(tree)
    online = tree.text("/sys/devices/system/cpu/online")
    return {
        "name": name,
        "model": model_name(tree),
        "cores": list(cores),
        "physical_cores": len(physical_cores(tree, cores)),
        "machine_cores": len(parse_cores(online)) if online else os.cpu_count(),
        "quota_cores": quota_cores(tree),
        "numa_nodes": list(numa_nodes(tree, cores)),
        "caches_bytes": cache_bytes(tree, cores[0]),
        "memory_bytes": memory_bytes(tree, "MemTotal"),
        "swap_bytes": memory_bytes(tree, "SwapTotal"),
        "virtual": is_virtual(tree),
        "microcode": info.get("microcode"),
        "flags": sorted(flag for flag in flags(tree) if flag.startswith(("avx", "amx", "fma", "sve", "bf16"))),
        "default_dtype": default_dtype(tree),
        "governors": list(governors(tree, cores)),
        "boost": boost(tree),
        "huge_pages": tree.text("/sys/kernel/mm/transparent_hugepage/enabled"),
        "kernel": tree.text("/proc/sys/kernel/osrelease") or platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "torch": version_of("torch"),
        "numpy": version_of("numpy"),
    }


# --- tile instructions (AMX) that a virtual machine lists but doesn't describe

TILE_LIMIT = "ONEDNN_MAX_CPU_ISA"
"""Read by oneDNN before its first product."""
_WITHOUT_TILES = "AVX512_CORE_FP16"
_TILE_LEAF = 0x1D


def tiles_unusable(tree: FileTree) -> bool:
    """True if the processor lists AMX without the leaf that describes it."""
    level = cpuinfo(tree).get("cpuid level", "")
    return "amx_tile" in flags(tree) and level.isdigit() and int(level) < _TILE_LEAF


def avoid_broken_tiles(tree: FileTree) -> None:
    """Keep oneDNN off unusable tiles, in this process and those it starts; a limit that the user set stays."""
    if tiles_unusable(tree):
        os.environ.setdefault(TILE_LIMIT, _WITHOUT_TILES)
