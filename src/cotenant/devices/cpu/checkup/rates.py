"""What the device can do at best."""

from cotenant.devices.cpu.cores import Cores
from cotenant.devices.cpu.roofline import roofline
from cotenant.devices.protocol import Finding
from cotenant.devices.tree import Tree
from cotenant.errors import DeviceError


def peak_rates(tree: Tree, cores: Cores) -> Finding:
    """Peak rates, measured the first time (a few seconds) and remembered."""
    try:
        peak = roofline(tree, cores)
    except DeviceError as error:
        return Finding("peak rates", "warning", error.message, error.hint)
    rates = ", ".join(f"{dtype} {rate / 1e9:.3g}" for dtype, rate in peak.flops_per_s.items())
    text = f"GFLOP/s: {rates}; memory {peak.bytes_per_s / 1e9:.3g} GB/s"
    if not peak.undisturbed:
        fix = "ask again when the machine is idle"
        return Finding("peak rates", "warning", f"{text}; others used the cores meanwhile, so these are too low", fix)
    return Finding("peak rates", "ok", text)
