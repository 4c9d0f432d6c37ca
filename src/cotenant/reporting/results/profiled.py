"""A profile: for each mix a timeline of kernels, the longest ones by tenant, overlap between tenants, counters."""

import math
from collections.abc import Sequence

from cotenant.analyse.kernel_overlap import Excerpt, KernelActivity, KernelProfile
from cotenant.reporting.elements import (
    DataTable,
    Drawing,
    Element,
    RowGroup,
    Section,
    Sentence,
    Sentences,
    TableCell,
    Value,
)
from cotenant.reporting.elements.html import page
from cotenant.reporting.figures.figure import Figure, Understanding
from cotenant.reporting.figures.style import ACCENT, PALETTE, QUIET, faceted, label, marks, quantity, tips, whole
from cotenant.text import figure, literal, percent

LONGEST_NAME = 60
BARS = " ▁▂▃▄▅▆▇█"
OTHERS = "others"
SLOWS = "Profiling slows tenants down: read which kernels run and when, never how fast. Measure with `cotenant run`."
TIMELINE = Understanding(
    shows="A lane for each tenant in the middle of the window; each bar is a kernel, coloured by its name.",
    look="Whether bars of two tenants lie above each other: then their kernels ran at once.",
    misleads=f"Only a few milliseconds are drawn; the table covers the window. {SLOWS}",
)
COUNTER = Understanding(
    shows="Counters of the device over the whole window.",
    look="Gaps, in which the device waits for the host.",
    misleads="Counters are of the device: they don't tell its tenants apart.",
)


def profile_elements(
    profiles: Sequence[KernelProfile], *, tool: str, notes: Sequence[str], measured: bool
) -> list[Element]:
    """Each mix, then the conclusions."""
    conclusions = [sentence for profile in profiles for sentence in overlap_sentences(profile)]
    return [
        *(
            Section(f"{profile.mix}, {profile.sharing}", f"mix-{number}", tuple(_mix(profile, tool, number)))
            for number, profile in enumerate(profiles, 1)
        ),
        Section("Conclusions", "conclusions", (Sentences((*conclusions, *notes, *((SLOWS,) if measured else ()))),)),
    ]


def profile_page(profiles: Sequence[KernelProfile], *, subject: str, tool: str, notes: Sequence[str]) -> str:
    """The same as one HTML file without network access."""
    elements = profile_elements(profiles, tool=tool, notes=notes, measured=True)
    return page(elements, title=f"Profile of {subject}", brand="cotenant profile", when=f"Seen by {tool}. {SLOWS}")


def overlap_sentences(profile: KernelProfile) -> list[str]:
    """One sentence per pair of tenants."""
    return [
        f"{profile.mix}, {profile.sharing}: kernels of {overlap.one} and {overlap.other} ran at once "
        f"{percent(overlap.share)} of the time, that is {percent(overlap.share_of_one)} of {overlap.one}'s and "
        f"{percent(overlap.share_of_other)} of {overlap.other}'s kernel time."
        for overlap in profile.overlaps
    ]


def _mix(profile: KernelProfile, tool: str, number: int) -> list[Element]:
    seen = f"{profile.kernels:,} kernels in {figure(profile.window_s)} s, seen by {tool}"
    elements: list[Element] = []
    kernels = _kernels(profile)
    if profile.excerpt is not None and profile.excerpt.launches:
        elements.append(Drawing(_timeline(profile, profile.excerpt, seen, f"timeline-{number}"), kernels))
    else:
        elements += [Sentence(f"{profile.mix}, {profile.sharing}: {seen}", "title"), kernels]
    if profile.overlaps:
        columns = ("tenant", "and tenant", "at once", "of the first's time", "of the second's time")
        rows = tuple(
            (pair.one, pair.other, percent(pair.share), percent(pair.share_of_one), percent(pair.share_of_other))
            for pair in profile.overlaps
        )
        elements.append(DataTable(columns, rows, numbers=frozenset(columns[2:])))
    if profile.activity:
        elements.append(_counters(profile.activity, profile.window_s, f"counters-{number}"))
    return elements


def _kernels(profile: KernelProfile) -> DataTable:
    groups = []
    for tenant in profile.tenants:
        copying = f", copied {percent(tenant.copying_share)}" if tenant.copying_share else ""
        rows: list[tuple[Value, ...]] = [
            (
                TableCell(_short(kernel.name), hint=kernel.name),
                f"{kernel.launches:,}",
                figure(kernel.total_ms),
                figure(kernel.mean_us),
                TableCell(percent(kernel.share), tone="answer"),
            )
            for kernel in tenant.top
        ]
        if tenant.others:
            rest = max(0.0, 1.0 - sum(kernel.share for kernel in tenant.top))
            rows.append((TableCell(f"{tenant.others} others", tone="quiet"), "", "", "", percent(rest)))
        heading = f"{tenant.tenant}: its kernels ran {percent(tenant.running_share)} of the time{copying}"
        groups.append(RowGroup(heading, tuple(rows)))
    columns = ("kernel", "launches", "total ms", "mean µs", "share")
    return DataTable(columns, groups=tuple(groups), numbers=frozenset(columns[1:]))


def _timeline(profile: KernelProfile, excerpt: Excerpt, seen: str, name: str) -> Figure:
    """One lane per tenant; each kernel is a bar, coloured by name, the longest kernels first."""
    times: dict[str, float] = {}
    for tenant in profile.tenants:
        for kernel in tenant.top:
            times[_short(kernel.name)] = times.get(_short(kernel.name), 0.0) + kernel.total_ms
    longest = sorted(times, key=lambda kernel: -times[kernel])[: len(PALETTE)]
    rows = tuple(
        {
            "tenant": literal(launch.tenant),
            "kernel": literal(launch.name),
            "colour": literal(short if (short := _short(launch.name)) in longest else OTHERS),
            "from_ms": launch.start_us / 1e3,
            "to_ms": (launch.start_us + launch.duration_us) / 1e3,
            "us": launch.duration_us,
        }
        for launch in excerpt.launches
    )
    names = [*map(literal, longest), OTHERS]
    colours = {"domain": names, "range": [*PALETTE[: len(longest)], QUIET]}
    title = f"ms after {figure(excerpt.start_s)} s of the window"
    shades = label("colour", scale=colours, legend={"columns": 1})
    encoding = {
        "y": label("tenant", sort=None),
        "x": quantity("from_ms", title),
        "x2": {"field": "to_ms"},
        "color": shades,
        "tooltip": tips(("kernel", "kernel"), ("us", "#µs"), ("from_ms", "#from ms")),
    }
    spec = marks("bar", encoding, height={"band": 0.8})
    head = f"{profile.mix}, {profile.sharing}: {seen}"
    return Figure(name, head, "", whole(spec, {"step": 34}), rows, TIMELINE, margin=120)


def _counters(activities: Sequence[KernelActivity], window_s: float, name: str) -> Drawing:
    rows = tuple(
        {
            "counter": literal(f"{activity.sensor} ({activity.unit}) of {activity.device}"),
            "s": window_s * number / len(activity.timeline),
            "value": value,
        }
        for activity in activities
        for number, value in enumerate(activity.timeline)
        if not math.isnan(value)
    )
    spec = marks("area", {"x": quantity("s", "s"), "y": quantity("value")}, color=ACCENT, interpolate="step-after")
    drawn = faceted("counter", [], spec, 60, {"scale": {"y": "independent"}})
    table = DataTable(
        ("device", "counter", "mean", "over the window"),
        tuple(
            (
                activity.device,
                activity.sensor,
                percent(activity.mean) if activity.unit == "share" else f"{figure(activity.mean)} {activity.unit}",
                spark(activity.timeline, 1.0 if activity.unit == "share" else activity.highest),
            )
            for activity in activities
        ),
    )
    return Drawing(Figure(name, "Counters", "", drawn, rows, COUNTER), table)


def spark(values: Sequence[float], highest: float) -> str:
    """A timeline in one line; blank where there is no reading."""
    return "".join(
        " "
        if math.isnan(value)
        else BARS[min(8, 1 + int(7.999 * max(value, 0.0) / highest))]
        if highest > 0
        else BARS[1]
        for value in values
    )


def _short(name: str) -> str:
    """The head of a name; templates make the tail long."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
