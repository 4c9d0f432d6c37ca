"""A profile as one HTML file: for each mix, a timeline of kernels, their overlap, and the longest ones."""

from collections.abc import Sequence
from html import escape

from cotenant.analyse.kernel_overlap import Excerpt, KernelActivity, KernelProfile, TenantKernels
from cotenant.reporting.figures.style import PALETTE, QUIET
from cotenant.reporting.html.assets import resource
from cotenant.reporting.terminal.literal import literal
from cotenant.reporting.terminal.profile import SLOWS, overlap_sentences
from cotenant.text import figure, percent

WIDTH, NAMES, LANE, GAP = 960.0, 150.0, 26.0, 8.0
"""Widths of the drawing and of names, height of a lane and of gaps; pixels."""
COLOURED = len(PALETTE)
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def profile_page(profiles: Sequence[KernelProfile], *, subject: str, tool: str, notes: Sequence[str]) -> str:
    """The page, without scripts or external resources."""
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>Profile of {_text(subject)}</title>',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{resource('templates', 'report.css')}</style></head><body>",
        f'<header><p class="brand">cotenant profile</p><h1>{_text(subject)}</h1>',
        f'<p class="run">Seen by {_text(tool)}. {SLOWS}</p></header><main>',
        *(f'<p class="advice">{_text(note)}</p>' for note in notes),
        *(_mix(profile) for profile in profiles),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _mix(profile: KernelProfile) -> str:
    title = f"{profile.mix}, {profile.sharing}"
    parts = [f"<section><h2>{_text(title)}</h2>", *(f"<p>{_text(line)}</p>" for line in overlap_sentences(profile))]
    if profile.excerpt is not None and profile.excerpt.launches:
        parts.append(_timeline(profile, profile.excerpt))
    parts += [_activity(activity, profile.window_s) for activity in profile.activity]
    parts += [_kernels(tenant) for tenant in profile.tenants]
    return "\n".join([*parts, "</section>"])


def _timeline(profile: KernelProfile, excerpt: Excerpt) -> str:
    """One lane per tenant; each kernel is a bar, coloured by name."""
    tenants = [tenant.tenant for tenant in profile.tenants]
    names = _names(profile)
    height = (LANE + GAP) * len(tenants) + 20
    scale = (WIDTH - NAMES) / (excerpt.length_ms * 1e3)
    bars = []
    for launch in excerpt.launches:
        if launch.tenant not in tenants:
            continue
        left, top = NAMES + launch.start_us * scale, tenants.index(launch.tenant) * (LANE + GAP)
        hint = f"{launch.name}, {figure(launch.duration_us)} µs"
        width = max(launch.duration_us * scale, 0.4)
        bars.append(
            f'<rect x="{left:.2f}" y="{top:.0f}" width="{width:.2f}" height="{LANE:.0f}" '
            f'fill="{_colour(launch.name, names)}" fill-opacity=".85"><title>{_text(hint)}</title></rect>'
        )
    labels = [
        f'<text x="0" y="{row * (LANE + GAP) + 17:.0f}" fill="currentColor">{_text(tenant[:20])}</text>'
        for row, tenant in enumerate(tenants)
    ]
    below = f'y="{height - 4:.0f}" fill="{QUIET}"'
    ends = (
        f'<text x="{NAMES:.0f}" {below}>{figure(excerpt.start_s)} s</text>'
        f'<text x="{WIDTH:.0f}" {below} text-anchor="end">+ {figure(excerpt.length_ms)} ms</text>'
    )
    legend = ", ".join(
        f'<span style="color:{_colour(name, names)}">■</span> {_text(name[:60])}' for name in names[:COLOURED]
    )
    return (
        f'<div class="scroll"><svg viewBox="0 0 {WIDTH:g} {height:g}" width="{WIDTH:g}" role="img" font-size="13">'
        f"<title>Kernels of {_text(profile.mix)} over {figure(excerpt.length_ms)} ms</title>"
        f"{''.join(bars)}{''.join(labels)}{ends}</svg></div><p><small>{legend}; grey: others</small></p>"
    )


def _activity(activity: KernelActivity, window_s: float) -> str:
    """A counter over the entire window."""
    highest = 1.0 if activity.unit == "share" else activity.highest or 1.0
    step = (WIDTH - NAMES) / max(len(activity.timeline), 1)
    bars = "".join(
        f'<rect x="{NAMES + k * step:.1f}" y="{40 - 36 * max(value, 0.0) / highest:.1f}" width="{step:.1f}" '
        f'height="{36 * max(value, 0.0) / highest:.1f}" fill="{PALETTE[0]}"/>'
        for k, value in enumerate(activity.timeline)
        if value == value  # noqa: PLR0124 - not NaN: there was a reading
    )
    mean = percent(activity.mean) if activity.unit == "share" else f"{figure(activity.mean)} {activity.unit}"
    name = f"{activity.sensor}: {mean}"
    return (
        f'<div class="scroll"><svg viewBox="0 0 {WIDTH:g} 44" width="{WIDTH:g}" role="img" font-size="12">'
        f"<title>{_text(name)} over {figure(window_s)} s</title>"
        f'<text x="0" y="26" fill="currentColor">{_text(name)}</text>{bars}</svg></div>'
    )


def _kernels(tenant: TenantKernels) -> str:
    rows = "".join(
        f'<tr><th scope="row"><code>{_text(kernel.name)}</code></th><td class="num">{kernel.launches:,}</td>'
        f'<td class="num">{figure(kernel.total_ms)}</td><td class="num">{figure(kernel.mean_us)}</td>'
        f'<td class="num">{percent(kernel.share)}</td></tr>'
        for kernel in tenant.top
    )
    heads = "".join(f'<th scope="col" class="num">{head}</th>' for head in ("launches", "total ms", "mean µs", "share"))
    others = f", {tenant.others} more kernels" if tenant.others else ""
    return (
        f"<h3>{_text(tenant.tenant)}</h3><p>Its kernels ran {percent(tenant.running_share)} of the time{others}.</p>"
        f'<div class="scroll" tabindex="0"><table><thead><tr><th scope="col">kernel</th>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _names(profile: KernelProfile) -> list[str]:
    """Kernels of all tenants, longest first."""
    times: dict[str, float] = {}
    for tenant in profile.tenants:
        for kernel in tenant.top:
            times[kernel.name] = times.get(kernel.name, 0.0) + kernel.total_ms
    return sorted(times, key=lambda name: -times[name])


def _colour(name: str, names: Sequence[str]) -> str:
    number = names.index(name) if name in names else COLOURED
    return PALETTE[number] if number < COLOURED else QUIET


def _text(words: str) -> str:
    return escape(literal(words))
