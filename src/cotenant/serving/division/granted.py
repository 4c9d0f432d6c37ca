"""What a worker was given of the device, from what was read back in its process."""

from collections.abc import Iterable, Mapping
from typing import Any

PERCENT, VISIBLE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_VISIBLE_DEVICES"


def granted(observed: Mapping[str, Any]) -> dict[str, Any]:
    """Its SMs as the driver counts them, its MPS limit, its MIG instance; or its cores.

    Args:
        observed: The report of a seat.
    """
    set_to = observed.get("environment") or {}
    found = {
        "sms": observed.get("green_sms") or observed.get("sms"),
        "mps_percent": float(set_to[PERCENT]) if set_to.get(PERCENT) else None,
        "mig_instance": set_to[VISIBLE] if str(set_to.get(VISIBLE, "")).startswith("MIG-") else None,
        "cores": observed.get("cores"),
    }
    return {name: value for name, value in found.items() if value is not None}


def parts_of(workers: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Each tenant's part in words, from the server's description of its workers."""
    return {name: in_words(one["granted"]) for one in workers if "granted" in one for name in one["tenants"]}


def in_words(part: Mapping[str, Any]) -> str:
    """A part in a few words: `64 SMs`."""
    if "sms" in part:
        return f"{part['sms']} SMs"
    if "mps_percent" in part:  # its worker has cores as well, but the part is one of the GPU
        return f"{part['mps_percent']:g} % of the SMs"
    if "cores" in part:
        cores = part["cores"]
        return f"core{'s'[: len(cores) > 1]} {', '.join(map(str, cores))}"
    return str(part.get("mig_instance", "its part of the device"))
