"""A profile for a terminal: kernels by tenant, overlap between tenants, timelines, sentences."""

import math
from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from cotenant.analyse.kernel_overlap import KernelActivity, KernelProfile, Overlap
from cotenant.reporting.elements.terminal import sentence_list
from cotenant.reporting.terminal.grouped import Grouped, GroupedRows, listing
from cotenant.reporting.terminal.literal import literal
from cotenant.text import figure, percent

LONGEST_NAME = 60
BARS = " ▁▂▃▄▅▆▇█"
SLOWS = "Profiling slows tenants down: read which kernels run and when, never how fast. Measure with `cotenant run`."


def profile_parts(
    profiles: Sequence[KernelProfile], *, tool: str, notes: Sequence[str], measured: bool
) -> tuple[RenderableType, ...]:
    """The tables of each mix, then the conclusions."""
    parts: list[RenderableType] = []
    for profile in profiles:
        parts.append(_title(profile, tool))
        if profile.tenants:
            parts.append(_kernels(profile))
        if profile.overlaps:
            parts.append(_overlaps(profile.overlaps))
        if profile.activity:
            parts.append(_activity(profile.activity))
    sentences = [sentence for profile in profiles for sentence in overlap_sentences(profile)]
    return (*parts, sentence_list([*sentences, *notes, *([SLOWS] if measured else [])]))


def overlap_sentences(profile: KernelProfile) -> list[str]:
    """One sentence per pair of tenants."""
    return [
        f"{profile.mix}, {profile.sharing}: kernels of {overlap.one} and {overlap.other} ran at once "
        f"{percent(overlap.share)} of the time, that is {percent(overlap.share_of_one)} of {overlap.one}'s and "
        f"{percent(overlap.share_of_other)} of {overlap.other}'s kernel time."
        for overlap in profile.overlaps
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


def _title(profile: KernelProfile, tool: str) -> Text:
    what = (
        f"{profile.mix}, {profile.sharing}: {profile.kernels:,} kernels in {figure(profile.window_s)} s, seen by {tool}"
    )
    return Text(literal(what), "bold underline")


def _kernels(profile: KernelProfile) -> Grouped:
    sections = []
    for tenant in profile.tenants:
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
        sections.append(GroupedRows(Text(literal(heading), "cyan"), tuple(rows)))
    return Grouped(("kernel", "launches", "total ms", "mean µs", "share"), sections)


def _overlaps(pairs: Sequence[Overlap]) -> RenderableType:
    rows = [
        (pair.one, pair.other, percent(pair.share), percent(pair.share_of_one), percent(pair.share_of_other))
        for pair in pairs
    ]
    return listing(("tenant", "and tenant", "at once", "of the first's time", "of the second's time"), rows)


def _activity(activities: Sequence[KernelActivity]) -> RenderableType:
    rows = [
        (
            overlap.device,
            overlap.sensor,
            percent(overlap.mean) if overlap.unit == "share" else f"{figure(overlap.mean)} {overlap.unit}",
            spark(overlap.timeline, 1.0 if overlap.unit == "share" else overlap.highest),
        )
        for overlap in activities
    ]
    return listing(("device", "counter", "mean", "over the window"), rows)


def _short(name: str) -> str:
    """The head of a name; templates make the tail long."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
