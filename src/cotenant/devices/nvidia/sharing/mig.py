"""`mig`: each tenant has an instance with its own SMs, memory and bandwidth.

Existing instances are used; missing ones are created, and MIG is turned on for that, where this user may. The previous
state is restored afterwards. Instances created by others are never removed.
"""

import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import Self

from cotenant.devices.nvidia import nvml, tools
from cotenant.devices.nvidia.nvml import GpuFacts, Instance
from cotenant.devices.nvidia.sharing.layout import Expected, GpuArrangement, GpuPlace, host, on_instance, shares_of
from cotenant.devices.nvidia.sharing.leftovers import Undoing, leave
from cotenant.devices.protocol import HostPlan, SharingMode
from cotenant.errors import CotenantError, SharingUnavailable
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing

MEANING = "each tenant has an instance with its own SMs, memory and bandwidth"
SMI = "nvidia-smi"
NEXT_BEST = "mps"
SAME_SIZE_GB = 4
"""Cards report slightly less memory than their name says."""

_PROFILES = {
    "A30-24": ("1g.6gb", "2g.12gb", "4g.24gb"),
    "A100-40": ("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"),
    "A100-80": ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
    "H100-80": ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
    "H100-94": ("1g.12gb", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"),
    "H100-96": ("1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"),
    "H200-141": ("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"),
    "B200-180": ("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"),
    "B300-269": ("1g.34gb", "1g.67gb", "2g.67gb", "3g.135gb", "4g.135gb", "7g.269gb"),
    "RTX PRO 6000 Blackwell-96": ("1g.24gb", "2g.48gb", "4g.96gb"),
}
"""From NVIDIA's MIG user guide, for cards whose driver lists profiles only while MIG is on."""


class MigFixture(Undoing):
    """Instances of these profiles on a GPU."""

    alone = True

    def __init__(self, gpu: GpuFacts, profiles: tuple[str, ...]) -> None:
        self._gpu, self._profiles = gpu, profiles
        self.instances: tuple[Instance, ...] = ()
        """One per requested profile, in order."""
        self.name = f"MIG instances {', '.join(profiles)} of {gpu.label}"

    def __enter__(self) -> Self:
        """Turn MIG on if it is off, and create missing instances."""
        before = nvml.find(self._gpu.uuid)
        self._left = leave("mig", {"gpu": before.uuid, "index": before.index, "off": not before.mig_mode, "made": []})
        try:
            if not before.mig_mode:
                nvml.forget()  # an open driver handle may block the reset an A100 needs
                _smi(before, "-mig", "1")
                nvml.forget()
                if not nvml.find(self._gpu.uuid).mig_mode:
                    raise SharingUnavailable(
                        "MIG was turned on but waits for a GPU reset, and the GPU is in use "
                        "(possibly by a monitor such as DCGM's host engine: sudo systemctl stop nvidia-dcgm)"
                    )
            have = nvml.find(self._gpu.uuid).instances
            lacking = list((Counter(self._profiles) - Counter(instance.profile for instance in have)).elements())
            if lacking:
                self._make(before, lacking)
            self.instances = _chosen(nvml.find(self._gpu.uuid).instances, self._profiles)
        except CotenantError as problem:
            self.__exit__()
            raise SharingUnavailable(
                f"{self.name} could not be set up: {problem.message}",
                hint=f"use `{NEXT_BEST}`, or ask an administrator for these instances",
            ) from None
        return self

    def __exit__(self, *exc: object) -> None:
        """Remove created instances; turn MIG off if it was off."""
        self.instances = ()
        super().__exit__()
        nvml.forget()

    def stands(self) -> bool:
        """True while every instance exists."""
        have = {instance.uuid for instance in nvml.find(self._gpu.uuid).instances}
        return bool(self.instances) and all(instance.uuid in have for instance in self.instances)

    def _make(self, gpu: GpuFacts, profiles: Sequence[str]) -> None:
        output = _smi(gpu, "mig", "-cgi", ",".join(profiles), "-C")
        assert self._left is not None
        self._left.note(made=re.findall(r"created GPU instance ID\s+(\d+)", output))
        nvml.forget()  # the library must be reopened to see them


def _smi(gpu: GpuFacts, *arguments: str) -> str:
    """Run nvidia-smi for a GPU. Raises SharingUnavailable with its message."""
    first, rest = ([arguments[0]], arguments[1:]) if arguments[0] == "mig" else ([], arguments)
    result = tools.run([SMI, *first, "-i", str(gpu.index), *rest])
    if not result.ok:
        raise SharingUnavailable(f"`{SMI} {' '.join([*first, *rest])}` failed: {result.reason}")
    return result.out


def _chosen(have: Sequence[Instance], profiles: Sequence[str]) -> tuple[Instance, ...]:
    left = list(have)
    chosen = []
    for profile in profiles:
        found = next((instance for instance in left if instance.profile == profile), None)
        if found is None:
            raise SharingUnavailable(f"the driver lists no instance {profile}")
        left.remove(found)
        chosen.append(found)
    return tuple(chosen)


def profiles_of(gpu: GpuFacts) -> tuple[str, ...]:
    """Profiles this card supports, from the driver or NVIDIA's tables; empty if unknown."""
    listed = tools.run([SMI, "mig", "-i", str(gpu.index), "-lgip"]) if tools.installed(SMI) else None
    if listed is not None and listed.ok:
        found = re.findall(r"MIG\s+(\d+g\.\d+gb)(?=\s)", listed.out)
        if found:
            return tuple(dict.fromkeys(found))
    gigabytes = round(gpu.memory_bytes / 2**30)
    fitting = {}
    for key, profiles in _PROFILES.items():
        family, _, size = key.rpartition("-")
        if re.search(rf"\b{family}\b", gpu.name) and (away := abs(gigabytes - int(size))) <= SAME_SIZE_GB:
            fitting[away] = profiles
    return fitting[min(fitting)] if fitting else ()


def missing(place: GpuPlace) -> str | None:
    """The missing requirement, whatever the profiles; None if available."""
    if place.gpu.mig_mode is None:
        return f"MIG: {place.gpu.label} can't be cut into instances"
    if not tools.installed(SMI):
        return f"{SMI}, which comes with the driver"
    if place.gpu.mig_mode and not place.gpu.instances and os.geteuid() != 0:
        return "MIG instances: MIG is on without any, and only root may create them"
    if not place.gpu.mig_mode and os.geteuid() != 0:
        return "MIG to be on: only root may turn it on"
    return None


def available(place: GpuPlace) -> SharingMode:
    """Available without turning MIG on; a study that names `mig` turns it on, `all` does not."""
    lacking = missing(place)
    if lacking is None and not place.gpu.mig_mode:
        lacking = "MIG to be on: a study that names `mig` turns it on, and off again"
    return SharingMode(
        "mig", MEANING, available=lacking is None, missing=lacking, instead=None if lacking is None else NEXT_BEST
    )


def wanted(place: GpuPlace, sharing: Sharing, tenants: Sequence[Tenant]) -> tuple[str, ...]:
    """A profile for each tenant: its share, else the largest that fits all. Raises SharingUnavailable."""
    can = profiles_of(place.gpu)
    shares = tuple(str(share) for share in shares_of(sharing, tenants))
    for share in shares:
        if can and share not in can:
            raise SharingUnavailable(
                f"{place.gpu.label} has no MIG instance {share!r}", hint=f"it has {', '.join(can)}"
            )
        if not re.fullmatch(r"\d+g\.\d+gb", share):
            raise SharingUnavailable(f"{share!r} is not a MIG instance", hint="write e.g. `mig: [3g.20gb, 3g.20gb]`")
    if not shares:
        by_size = sorted(can or (instance.profile for instance in place.gpu.instances), key=_size, reverse=True)
        shares = next(((profile,) * len(tenants) for profile in by_size if _fit((profile,) * len(tenants), can)), ())
        if not shares:
            raise SharingUnavailable(
                f"{place.gpu.label} can't be split into {len(tenants)} equal MIG instances",
                hint=f"use fewer tenants, or `{NEXT_BEST}`",
            )
    if can and not _fit(shares, can):
        slices, gigabytes = _size(max(can, key=_size))
        raise SharingUnavailable(
            f"{place.gpu.label} can't hold the MIG instances {', '.join(shares)} at once",
            hint=f"it has {slices} SM slices and {gigabytes} GB in total",
        )
    have = Counter(instance.profile for instance in place.gpu.instances)
    if os.geteuid() != 0 and Counter(shares) - have:
        raise SharingUnavailable(
            f"the MIG instances {', '.join((Counter(shares) - have).elements())} don't exist, and only root may "
            "make them",
            hint=f"use existing ones ({', '.join(have.elements()) or 'none'}), or `{NEXT_BEST}`",
        )
    return shares


def arrange(place: GpuPlace, fixture: MigFixture, tenants: Sequence[Tenant]) -> GpuArrangement:
    """Each tenant in a process that sees only its instance."""

    def plan() -> tuple[HostPlan, ...]:
        return tuple(
            host(on_instance(place, fixture.instances[index]), [(index, tenant, {})])
            for index, tenant in enumerate(tenants)
        )

    return GpuArrangement(
        mode="mig",
        tenants=tuple(tenant.name for tenant in tenants),
        plan=plan,
        expected=lambda: tuple(_expected(instance) for instance in fixture.instances),
        fixture=fixture,
    )


def _expected(instance: Instance) -> Expected:
    return Expected(
        sms=(instance.sms, instance.sms) if instance.sms else None, memory_bytes=instance.memory_bytes or None
    )


def _size(profile: str) -> tuple[int, int]:
    slices, _, gigabytes = profile.partition("g.")
    return int(slices), int(gigabytes.removesuffix("gb"))


def _fit(shares: Sequence[str], can: Sequence[str]) -> bool:
    if not can:
        return True
    slices, gigabytes = _size(max(can, key=_size))
    taken = [_size(share) for share in shares]
    rounded = len(shares) / 2  # names round to gigabytes: two halves of 141 GB are called 3g.71gb
    return (
        sum(profile[0] for profile in taken) <= slices and sum(profile[1] for profile in taken) <= gigabytes + rounded
    )
