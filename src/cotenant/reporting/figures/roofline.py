"""Tenants against the device's peak rates."""

from collections.abc import Mapping, Sequence

from cotenant.reporting.figures.figure import Absent, Figure, Row, Understanding
from cotenant.reporting.figures.material import Material, RunFacts
from cotenant.reporting.figures.style import QUIET, colour, equal, marks, quantity, tips, whole
from cotenant.text import literal

TITLE = "Roofline"
DATA_SHEET = "data sheet"
"""Shown in place of the date of measurement if a roof was not measured."""
UNDERSTANDING = Understanding(
    shows="Work per second of every tenant alone (vertical) against its operations per byte moved "
    "(horizontal). The roof is the device's peak, from the source named above: its slope is memory, "
    "its top compute.",
    look="Under the slope a tenant is bound by memory, under the flat part by compute; far below the roof, by neither "
    "(starting kernels, small batches, one thread). Two tenants bound by the same resource seldom share well.",
    misleads="Bytes are counted from the tensors of a dry run, as if there were no cache: what fits in a cache can be "
    "above the slope. A measured roof comes from simple kernels and is not a physical limit; a data sheet's is seldom "
    "reached.",
)


def roofline_figure(material: Material, run: RunFacts) -> Figure | Absent:
    """Dots for tenants alone, under the roof of their run's device."""
    roof = run.peaks
    if not roof.flops_per_s or roof.bytes_per_s is None:
        return Absent("roofline", TITLE, "no roofline in this run: its manifest has no peak rates of the device")
    points = _points(material, run)
    if not points:
        return Absent("roofline", TITLE, "no tenant that ran alone states its operations and bytes per request")
    dtypes = sorted({str(point["dtype"]) for point in points if point["dtype"] in roof.flops_per_s}) or [
        max(roof.flops_per_s, key=lambda dtype: roof.flops_per_s[dtype])
    ]
    least = min(float(str(point["intensity"])) for point in points) / 4
    most = max(float(str(point["intensity"])) for point in points) * 4
    roofs = [row for dtype in dtypes for row in _roof(dtype, roof.flops_per_s[dtype], roof.bytes_per_s, least, most)]
    rows = [*roofs, *points]
    log = {"type": "log", "nice": False}
    ticks = {"format": "~g", "tickCount": 6}
    axes = {
        "x": quantity("intensity", "floating point operations per byte", scale=log, axis=ticks),
        "y": quantity("gflops_per_s", "billion operations per second", scale=log | {"padding": 16}, axis=ticks),
    }
    # The legend is above the title of the vertical axis.
    names = colour("name", [str(point["name"]) for point in points], "tenant") | {"legend": {"offset": 26}}
    tip = tips(("name", "tenant"), ("intensity", "#operations/byte"), ("gflops_per_s", "#GFLOP/s"))
    line = axes | {"detail": {"field": "name"}}
    spec = {
        "layer": [
            marks("line", line, equal("kind", "roof"), color=QUIET, strokeWidth=2.5),
            marks("point", axes | {"color": names, "tooltip": tip}, equal("kind", "tenant"), size=110),
        ]
    }
    from_sheet = roof.rates_known == DATA_SHEET
    known = "of its data sheet" if from_sheet else f"measured on {literal(roof.rates_known.partition('T')[0])}"
    doubt = "" if roof.undisturbed else ", measured while something else used the device"
    return Figure(
        name="roofline",
        title=TITLE,
        condition=(f"run {run.letter}, " if material.names.several_runs else "")
        + f"{roof.rates_of} {'SMs' if from_sheet else 'cores'}, peak rates {known}{doubt}",
        spec=whole(spec, 300),
        rows=tuple(rows),
        understanding=UNDERSTANDING,
        margin=60,
    )


def _points(material: Material, run: RunFacts) -> list[Row]:
    rows: dict[str, Row] = {}
    for tenant in material.summary.tenants:
        facts = material.tenants[tenant.cell, tenant.tenant]
        rate = tenant.throughput_rps.est
        if not (tenant.cell.solo and tenant.cell.run == run.identity and rate):
            continue
        if not (facts.flops_per_request and facts.bytes_per_request):
            continue
        achieved = facts.flops_per_request * rate / 1e9
        # Under an open load, a tenant doesn't run at full speed: take its fastest solo trial.
        if tenant.of not in rows or achieved > float(str(rows[tenant.of]["gflops_per_s"])):
            rows[tenant.of] = {
                "kind": "tenant",
                "name": literal(tenant.of),
                "intensity": facts.flops_per_request / facts.bytes_per_request,
                "gflops_per_s": achieved,
                "dtype": facts.dtype,
            }
    return list(rows.values())


def _roof(dtype: str, flops: float, bandwidth: float, least: float, most: float) -> Sequence[Mapping[str, object]]:
    ridge = flops / bandwidth
    corners = sorted({min(least, ridge / 2), ridge, max(most, ridge * 2)})
    return [
        {
            "kind": "roof",
            "name": f"roof, {dtype}",
            "intensity": corner,
            "gflops_per_s": min(flops, bandwidth * corner) / 1e9,
            "dtype": dtype,
        }
        for corner in corners
    ]
