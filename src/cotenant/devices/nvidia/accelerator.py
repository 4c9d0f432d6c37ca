"""An accelerator known only to torch (ROCm, XPU): tenants, timing and memory work; sensors and controls are missing.

Nothing missing is guessed: a run has latencies, throughput and slowdowns, but no power or clocks.
"""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

from cotenant.devices.cpu.cores import usable_cores
from cotenant.devices.nvidia import torch_side
from cotenant.devices.nvidia.seat import GpuSeat, GpuSeatOptions
from cotenant.devices.nvidia.sharing import undivided
from cotenant.devices.nvidia.sharing.layout import Expected, GpuArrangement, host_plan, ranks
from cotenant.devices.nvidia.tools import torch_build
from cotenant.devices.protocol import Finding, HostPlan, Probe, Roofline, SharingMode
from cotenant.devices.single import SingleDevice
from cotenant.devices.tree import FileTree
from cotenant.errors import DeviceError, SharingUnavailable
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.ways import ALONE
from cotenant.workloads.protocol import Dtype

log = logging.getLogger(__name__)

MAKERS = {"xpu": "Intel", "rocm": "AMD", "cuda": "these"}
LACKING = ("power", "energy", "clocks", "temperature", "throttling", "SM, tensor and DRAM activity")
NVIDIA_ONLY = ("mps", "mps-static", "green", "mig", "exclusive")


class TorchAccelerator(SingleDevice):
    """One torch device, by index."""

    simulated = False

    def __init__(self, family: str, index: int, facts: Mapping[str, Any]) -> None:
        self.name = f"{family}:{index}"
        self._family, self._index, self._facts = family, index, facts
        self._kind = "cuda" if family == "rocm" else family  # torch calls AMD's devices cuda

    @property
    def meaning(self) -> str:
        """One-clause description."""
        return f"{self._facts['name']}, {self._facts['memory_bytes'] / 2**30:.0f} GiB (no sensors, no controls)"

    @property
    def default_dtype(self) -> Dtype:
        """Supported by the matrix units of both makers."""
        return "bfloat16"

    @property
    def host_cores(self) -> int:
        """The machine's."""
        return len(usable_cores(FileTree()))

    def lock_keys(self) -> tuple[str, ...]:
        """By UUID where torch knows it."""
        return (str(self._facts.get("uuid") or self.name),)

    def describe(self) -> Mapping[str, Any]:
        """Facts from torch, and a list of what is unknown."""
        build = torch_build()
        return {
            **self._facts,
            "model": self._facts["name"],
            "torch": f"{build.version}, built for {build.built_for}" if build else None,
            "default_dtype": self.default_dtype,
            "sources": [f"no {metric}: not readable on {MAKERS[self._family]} devices" for metric in LACKING],
            "cores": self.host_cores,
        }

    def sharings(self) -> tuple[SharingMode, ...]:
        """Processes and streams; the other modes are NVIDIA's."""
        return (
            SharingMode("processes", undivided.PROCESSES),
            SharingMode("streams", undivided.STREAMS),
            *(
                SharingMode(mode, "for NVIDIA GPUs", available=False, missing="an NVIDIA card", instead=nearest)
                for mode, nearest in zip(NVIDIA_ONLY, ("processes", *["streams"] * 4), strict=True)
            ),
        )

    def arrange(self, sharing: Sharing, tenants: Sequence[Tenant]) -> GpuArrangement:
        """A process per tenant, or one for all."""
        if sharing.mode not in {ALONE, "processes", "streams"}:
            raise SharingUnavailable(
                f"`{sharing.mode}` is not available on {self.name}: it needs an NVIDIA card",
                hint="use `processes` or `streams`",
            )
        if sharing.shares or (sharing.mode == ALONE and len(tenants) != 1):
            raise SharingUnavailable(f"`{sharing}` can't hold {len(tenants)} tenants here", hint="use `processes`")
        everyone: GpuSeatOptions = {
            "kind": self._kind,
            "index": self._index,
            "threads": self.host_cores,
            "dtype": self.default_dtype,
        }
        order = ranks(tenants)
        own: list[GpuSeatOptions] = [{"stream": True, "priority": rank} for rank in order]
        if sharing.mode == "streams":
            seats = [(index, tenant, own[index]) for index, tenant in enumerate(tenants)]
            hosts: tuple[HostPlan, ...] = (host_plan(everyone, seats, {}),)
        else:
            hosts = tuple(host_plan(everyone, [(index, tenant, {})], {}) for index, tenant in enumerate(tenants))
        uuid = self._facts.get("uuid")
        return GpuArrangement(
            mode=sharing.mode,
            tenants=tuple(tenant.name for tenant in tenants),
            plan=lambda: hosts,
            expected=lambda: (Expected(uuid=uuid),) * len(tenants),
        )

    def seat(self, options: Mapping[str, Any]) -> GpuSeat:
        """A tenant's seat, from the options in its plan."""
        return GpuSeat(cast("GpuSeatOptions", dict(options)))

    def probes(self) -> Sequence[Probe]:
        """No probes."""
        return ()

    def apply(self, settings: Mapping[str, Any]) -> AbstractContextManager[Sequence[str]]:
        """No controls: only empty settings are accepted."""
        if settings:
            raise DeviceError(
                f"{self.name} has no control {next(iter(settings))!r}",
                hint="leave the settings out; only NVIDIA GPUs and CPUs have controls",
            )
        return _untouched()

    def free_memory_bytes(self) -> int:
        """Free memory according to torch."""
        return int(self._facts["free_memory_bytes"])

    def roofline(self, *, refresh: bool = False) -> Roofline:
        """Not measured."""
        del refresh
        raise DeviceError(f"this version can't measure the peak rates of {self.name}")

    def checkup(self) -> tuple[Finding, ...]:
        """Available and missing features."""
        build = torch_build()
        found = [
            Finding("device", "ok", self.meaning),
            Finding("torch", "ok", f"{build.version}, built for {build.built_for}" if build else "none"),
            Finding("sensors", "note", f"none here: runs don't have {', '.join(LACKING)}"),
            Finding("controls", "note", "none here: clocks and limits are left alone"),
        ]
        found += [
            Finding(f"sharing: {mode.mode}", "ok" if mode.available else "note", mode.missing or mode.meaning)
            for mode in self.sharings()
        ]
        return tuple(found)


@contextmanager
def _untouched() -> Iterator[Sequence[str]]:
    yield ()


def open_accelerator(family: str, part: str) -> TorchAccelerator:
    """Return the device of this family and index. Raises DeviceError if torch can't use it."""
    if not part.isdecimal():
        raise DeviceError(f"{family}:{part} is not a device", hint=f"write {family}:0")
    build = torch_build()
    wanted = "cuda" if family == "rocm" else family
    if build is None or build.kind != wanted or (family == "rocm" and not build.hip):
        have = build.built_for if build else "nothing: it is not installed"
        raise DeviceError(
            f"there is no {family}:{part}: the installed torch is built for {have}",
            hint=f"install a build of torch for {MAKERS[family]} devices, see https://pytorch.org/get-started",
        )
    facts = torch_side.look(wanted)
    if int(part) >= len(facts):
        names = ", ".join(f"{family}:{index}" for index in range(len(facts)))
        raise DeviceError(f"there is no {family}:{part} here", hint=f"there are: {names}")
    return TorchAccelerator(family, int(part), facts[int(part)])


def list_accelerators() -> list[TorchAccelerator]:
    """Torch devices other than NVIDIA's; empty if torch isn't built for any."""
    build = torch_build()
    if build is None or not (build.hip or build.xpu) or os.environ.get(torch_side.SEAM):
        return []
    family = "rocm" if build.hip else "xpu"
    try:
        count = len(torch_side.look("cuda" if build.hip else "xpu"))
    except DeviceError as error:
        log.info("torch devices are not listed: %s", error.message)
        return []
    return [open_accelerator(family, str(index)) for index in range(count)]
