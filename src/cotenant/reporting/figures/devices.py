"""Devices side by side: the best way to share each mix on each, for a figure that leaves its page."""

import math

from cotenant.reporting.figures.figure import Figure, Row, Understanding
from cotenant.reporting.figures.material import Material
from cotenant.reporting.figures.style import label, marks, quantity, tips, whole
from cotenant.tenancy.device_names import DeviceName
from cotenant.text import literal, ratio

UNDERSTANDING = Understanding(
    shows="Each mix on each device under its best way to share: the work done relative to taking turns or, where rates "
    "are given, how long requests take relative to alone.",
    look="A row whose colours differ: there the device decides whether sharing pays.",
    misleads="Each number is relative to the same device. A fast device that loses much may still be the faster one.",
)
GAIN = {"domain": [-2, 2], "scheme": "redblue", "clamp": True}
"""Red costs, blue gains; from a quarter to four times."""


def devices_figure(material: Material) -> Figure | None:
    """A square for each mix and device; None for a single device. The page shows the same as a table."""
    beside = material.beside
    if beside is None:
        return None
    rows: list[Row] = []
    for line in beside.rows:
        for device, choice in zip(beside.devices, line.choices, strict=True):
            if choice is None or not choice.best.gauge.est:
                continue
            gauge, sharing = choice.best.gauge, choice.best.cell.sharing
            rows.append(
                {
                    "mix": literal(f"{line.mix}{', ' + line.under if line.under else ''}"),
                    "device": DeviceName(device).model,
                    "sharing": literal(sharing.partition("[")[0]),
                    "said": f"{ratio(gauge.est)}x{'' if choice.verdict != 'open' else ' ?'}",
                    "ratio": gauge.est,
                    "lo": gauge.lo,
                    "hi": gauge.hi,
                    "verdict": choice.verdict,
                    "gain": math.log2(gauge.est) * (-1 if choice.best.rates_given else 1),
                }
            )
    names = (("mix", "mix"), ("device", "device"), ("sharing", "by"))
    tip = tips(*names, ("ratio", "#ratio"), ("lo", "#from"), ("hi", "#to"))
    filled = {"color": quantity("gain", scale=GAIN, legend=None), "tooltip": tip}
    spec = {
        "encoding": {
            "x": label("device", sort=None, axis={"orient": "top", "labelAngle": 0}),
            "y": label("mix", sort=None, axis={"titleAngle": 0}),
        },
        "layer": [
            marks("rect", filled, cornerRadius=3),
            marks("text", {"text": label("said")}, fontSize=12, dy=-6, color="#111"),
            marks("text", {"text": label("sharing")}, fontSize=10, dy=8, color="#111"),
        ],
    }
    return Figure(
        name="devices",
        title="Devices side by side: the best way to share each mix",
        condition="",
        spec=whole(spec, {"step": 34}),
        rows=tuple(rows),
        understanding=UNDERSTANDING,
        margin=200,
    )
