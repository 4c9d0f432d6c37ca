"""The cores of this machine as a device."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

from cotenant.devices.cpu import cgroup, machine
from cotenant.devices.cpu.checkup import checkup
from cotenant.devices.cpu.core_sharing import CpuArrangement, CpuSeatOptions, arrange, sharing_modes
from cotenant.devices.cpu.cores import (
    Cores,
    allowed_cores,
    by_node,
    format_cores,
    parse_cores,
    physical_cores,
    usable_cores,
)
from cotenant.devices.cpu.roofline import remembered, roofline
from cotenant.devices.cpu.seat import CpuSeat
from cotenant.devices.cpu.sensors import open_probes
from cotenant.devices.protocol import DeviceKind, Finding, Probe, Roofline, SharingMode
from cotenant.devices.single import SingleDevice
from cotenant.devices.tree import FileTree
from cotenant.errors import DeviceError
from cotenant.prediction.batch_limit import Room
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing
from cotenant.text import did_you_mean
from cotenant.workloads.protocol import Dtype

FORK_BYTES = 160 << 20
"""Estimated: forks of small models had 115 to 150 MiB to themselves."""


class CpuDevice(SingleDevice):
    """Some or all cores of this machine. Kernel files are read below a root, so tests can supply their own."""

    simulated = False

    def __init__(self, name: str, cores: Cores, tree: FileTree) -> None:
        self.name = name
        self.cores = cores
        self._tree = tree

    @property
    def meaning(self) -> str:
        """One-clause description."""
        n = len(self.cores)
        kind = "virtual " if machine.is_virtual(self._tree) else ""
        which = f"core{'s'[: n > 1]} {format_cores(self.cores)}"
        return f"{n} {kind}core{'s'[: n > 1]} of {machine.model_name(self._tree)} ({which})"

    @property
    def kind(self) -> DeviceKind:
        """Cores."""
        return "cpu"

    @property
    def default_dtype(self) -> Dtype:
        """bfloat16 where the processor multiplies it natively, else float32."""
        return machine.default_dtype(self._tree)

    @property
    def host_cores(self) -> int:
        """Number of its cores."""
        return len(self.cores)

    @property
    def tenant_bytes(self) -> int:
        """What a process has for itself: Python and torch are shared with the process that it is a fork of."""
        return FORK_BYTES

    def lock_keys(self) -> tuple[str, ...]:
        """One key per core."""
        return tuple(f"cpu:{core}" for core in self.cores)

    def describe(self) -> Mapping[str, Any]:
        """Processor, caches, memory, kernel, limits, governor, versions."""
        return machine.describe(self._tree, self.name, self.cores)

    def sharings(self) -> tuple[SharingMode, ...]:
        """`processes`, `threads`, `pinned`."""
        return sharing_modes(self.cores)

    def arrange(self, sharing: Sharing, tenants: Sequence[Tenant]) -> CpuArrangement:
        """Cores, threads and processes for each tenant."""
        return arrange(by_node(self._tree, physical_cores(self._tree, self.cores)), sharing, tenants)

    def seat(self, options: Mapping[str, Any]) -> CpuSeat:
        """A tenant's seat, from the options in its plan."""
        wanted = CpuSeatOptions(cores=list(options["cores"]), threads=int(options["threads"]), clock=options["clock"])
        return CpuSeat(self._tree, wanted, self.default_dtype)

    def probes(self) -> Sequence[Probe]:
        """Probes for CPU time, pressure, memory, clocks, temperature, energy and counters: those that work here."""
        return open_probes(self._tree, self.cores)

    def apply(self, settings: Mapping[str, Any]) -> AbstractContextManager[tuple[str, ...]]:
        """Set `governor` and `boost`; restore them on exit."""
        return apply(self._tree, self.cores, settings)

    def free_memory_bytes(self) -> int:
        """Memory the kernel can give without swapping, within the container's limit."""
        available = machine.memory_bytes(self._tree, "MemAvailable") or 0
        granted = cgroup.free_memory_bytes(self._tree)
        return available if granted is None else min(available, granted)

    def room(self, memory_bytes: int | None = None) -> Room:
        """Limits of a tenant: the heap returns free memory, inputs live in it too, tensors have 64-bit indices."""
        return Room(memory_bytes or self.free_memory_bytes(), holds_inputs=True)

    def roofline(self, *, refresh: bool = False) -> Roofline:
        """Peak FLOP/s by dtype and memory bandwidth of all the device's cores, measured once and cached."""
        return roofline(self._tree, self.cores, refresh=refresh)

    def remembered_roofline(self) -> Roofline | None:
        """Cached peak rates; None if not measured yet."""
        return remembered(self._tree, self.cores)

    def checkup(self) -> tuple[Finding, ...]:
        """Findings on whether this machine is ready to be measured."""
        return checkup(self._tree, self.cores)


def open_cpu(name: str, part: str | None, tree: FileTree | None = None) -> CpuDevice:
    """Return the CPU with this name.

    Args:
        name: The full name, e.g. `cpu:0-1`.
        part: The part after the colon; None means all cores this process can keep busy.
        tree: Root of /proc and /sys.

    Raises:
        DeviceError: The cores are malformed, or this process may not use them.
    """
    tree = tree or FileTree()
    machine.avoid_broken_tiles(tree)
    if part is None:
        return CpuDevice(name, usable_cores(tree), tree)
    try:
        cores = parse_cores(part)
    except ValueError as error:
        raise DeviceError(f"in the device {name!r}, {error}", hint="write cpu:0, cpu:0-1 or cpu:0,2") from None
    allowed = allowed_cores()
    absent = tuple(sorted(set(cores) - set(allowed)))
    if absent:
        raise DeviceError(
            f"the device {name!r} names core{'s'[: len(absent) > 1]} {format_cores(absent)}, but this process may use "
            f"core{'s'[: len(allowed) > 1]} {format_cores(allowed)}",
            hint=f"use cpu, or cpu:{format_cores(allowed)}",
        )
    return CpuDevice(name, cores, tree)


# --- CPU controls: frequency governor and boost, where this user may write them; restored afterwards

_GOVERNOR = "/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor"
_BOOST = "/sys/devices/system/cpu/cpufreq/boost"
_NO_TURBO = "/sys/devices/system/cpu/intel_pstate/no_turbo"


def apply(tree: FileTree, cores: Cores, settings: Mapping[str, Any]) -> AbstractContextManager[tuple[str, ...]]:
    """Set the controls on entry, yield a sentence for each that did not take effect, restore all on every exit.

    Args:
        tree: Root of the kernel's files.
        cores: The device's cores.
        settings: `governor: performance`, `boost: off`; empty leaves everything alone.

    Raises:
        DeviceError: Immediately, if a control is unknown, missing or not writable.
    """
    writes = [write for key, value in settings.items() for write in _writes(tree, cores, key, value)]
    for key, path, wanted in writes:
        if os.geteuid() != 0 and not os.access(tree.path(path), os.W_OK):
            raise _needs_root(key, path, wanted)
    return _applied(tree, writes)


@contextmanager
def _applied(tree: FileTree, writes: Sequence[tuple[str, str, str]]) -> Iterator[tuple[str, ...]]:
    with ExitStack() as restore:
        for key, path, wanted in writes:
            before = tree.text(path)
            if before is not None and before != wanted:
                restore.callback(_put_back, tree, path, before)
            _write(tree, key, path, wanted)
        yield tuple(
            f"{key} reads {got!r} after {wanted!r} was written to {path}"
            for key, path, wanted in writes
            if (got := tree.text(path)) != wanted
        )


def _writes(tree: FileTree, cores: Cores, key: str, value: Any) -> list[tuple[str, str, str]]:
    """The files to write for a setting, and the text for each."""
    makers: dict[str, Callable[[FileTree, Cores, Any], list[tuple[str, str, str]]]] = {
        "governor": _governor,
        "boost": _boost,
    }
    if key not in makers:
        hint = did_you_mean(key, makers) or f"choose {' or '.join(makers)}"
        raise DeviceError(f"a CPU has no control {key!r}", hint=hint)
    return makers[key](tree, cores, value)


def _governor(tree: FileTree, cores: Cores, value: Any) -> list[tuple[str, str, str]]:
    paths = [_GOVERNOR.format(core=core) for core in cores]
    if any(tree.text(path) is None for path in paths):
        raise _absent("governor", "there is no frequency driver (usual in virtual machines)")
    offered = (tree.text(paths[0].replace("scaling_governor", "scaling_available_governors")) or "").split()
    if not isinstance(value, str) or (offered and value not in offered):
        raise DeviceError(f"governor {value!r} is not available here", hint=f"use one of {', '.join(offered)}")
    return [("governor", path, value) for path in paths]


def _boost(tree: FileTree, _: Cores, value: Any) -> list[tuple[str, str, str]]:
    on = value in (True, "on")
    if not on and value not in (False, "off"):
        raise DeviceError(f"boost is on or off, not {value!r}", hint="write `boost: off`")
    if tree.text(_NO_TURBO) is not None:
        return [("boost", _NO_TURBO, "0" if on else "1")]
    if tree.text(_BOOST) is not None:
        return [("boost", _BOOST, "1" if on else "0")]
    raise _absent("boost", "the frequency driver has no switch for it")


def _absent(key: str, why: str) -> DeviceError:
    return DeviceError(
        f"this machine has no control {key!r}: {why}",
        hint=f"leave {key!r} out of the settings, or use another study: `cotenant studies` lists them",
    )


def _needs_root(key: str, path: str, text: str) -> DeviceError:
    return DeviceError(
        f"{key} can't be set: {path} needs root",
        hint=f"leave {key!r} out, or set it beforehand: echo {text} | sudo tee {path}",
    )


def _write(tree: FileTree, key: str, path: str, text: str) -> None:
    try:
        tree.path(path).write_text(text, encoding="ascii")
    except PermissionError:
        raise _needs_root(key, path, text) from None
    except OSError as error:
        raise DeviceError(f"{key} can't be set to {text!r}: {error.strerror} ({path})") from None


def _put_back(tree: FileTree, path: str, text: str) -> None:
    with suppress(OSError):
        tree.path(path).write_text(text, encoding="ascii")
