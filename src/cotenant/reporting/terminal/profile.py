"""A profile for a terminal: kernels by tenant, overlap between tenants, timelines, sentences."""

import math
from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from cotenant.analyse.kernel_overlap import Activity, KernelProfile, Overlap
from cotenant.reporting.terminal.grouped import Grouped, Section
from cotenant.reporting.terminal.listing import listing
from cotenant.reporting.terminal.literal import literal
from cotenant.reporting.terminal.tables import sentence_list
from cotenant.text import figure, percent

LONGEST_NAME = 60
BARS = " ▁▂▃▄▅▆▇█"
SLOWS = "Profiling slows tenants down: read which kernels run and when, never how fast. Measure with `cotenant run`."


def profile_parts(
    profiles: Sequence[KernelProfile], *, tool: str, notes: Sequence[str], measured: bool
) -> tuple[RenderableType, ...]:
    """The tables of each mix, then the conclusions."""
    parts: list[RenderableType] = []
    for one in profiles:
        parts.append(_title(one, tool))
        if one.tenants:
            parts.append(_kernels(one))
        if one.overlaps:
            parts.append(_overlaps(one.overlaps))
        if one.activity:
            parts.append(_activity(one.activity))
    sentences = [sentence for one in profiles for sentence in overlap_sentences(one)]
    return (*parts, sentence_list([*sentences, *notes, *([SLOWS] if measured else [])]))


def overlap_sentences(profile: KernelProfile) -> list[str]:
    """One sentence per pair of tenants."""
    return [
        f"{profile.mix}, {profile.sharing}: kernels of {one.one} and {one.other} ran at once {percent(one.share)} of "
        f"the time, that is {percent(one.share_of_one)} of {one.one}'s and "
        f"{percent(one.share_of_other)} of {one.other}'s kernel time."
        for one in profile.overlaps
    ]


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


def _title(one: KernelProfile, tool: str) -> Text:
    what = f"{one.mix}, {one.sharing}: {one.kernels:,} kernels in {figure(one.window_s)} s, seen by {tool}"
    return Text(literal(what), "bold underline")


def _kernels(one: KernelProfile) -> Grouped:
    sections = []
    for tenant in one.tenants:
        copying = f", copied {percent(tenant.copying_share)}" if tenant.copying_share else ""
        heading = f"{tenant.tenant}: its kernels ran {percent(tenant.running_share)} of the time{copying}"
        rows = [
            (
                Text(literal(_short(kernel.name))),
                Text(f"{kernel.launches:,}"),
                Text(figure(kernel.total_ms)),
                Text(figure(kernel.mean_us)),
                Text(percent(kernel.share), "bold"),
            )
            for kernel in tenant.top
        ]
        if tenant.others:
            rest = 1.0 - sum(kernel.share for kernel in tenant.top)
            rows.append((Text(f"{tenant.others} others", "dim"), Text(), Text(), Text(), Text(percent(max(rest, 0.0)))))
        sections.append(Section(Text(literal(heading), "cyan"), tuple(rows)))
    return Grouped(("kernel", "launches", "total ms", "mean µs", "share"), sections)


def _overlaps(pairs: Sequence[Overlap]) -> RenderableType:
    rows = [
        (one.one, one.other, percent(one.share), percent(one.share_of_one), percent(one.share_of_other))
        for one in pairs
    ]
    return listing(("tenant", "and tenant", "at once", "of the first's time", "of the second's time"), rows)


def _activity(found: Sequence[Activity]) -> RenderableType:
    rows = [
        (
            one.device,
            one.sensor,
            percent(one.mean) if one.unit == "share" else f"{figure(one.mean)} {one.unit}",
            spark(one.timeline, 1.0 if one.unit == "share" else one.highest),
        )
        for one in found
    ]
    return listing(("device", "counter", "mean", "over the window"), rows)


def _short(name: str) -> str:
    """The head of a name; templates make the tail long."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
