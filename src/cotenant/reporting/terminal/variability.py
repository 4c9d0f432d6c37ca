"""Differences between GPUs, for a terminal."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.analyse.variability.drift import Drift
from cotenant.analyse.variability.sentences import (
    change_sentence,
    day,
    headline,
    heat_sentence,
    pair_sentence,
    shared_sentence,
    slow_sentence,
    stuck_sentence,
)
from cotenant.analyse.variability.summary import Variability
from cotenant.reporting.terminal.listing import listing
from cotenant.reporting.terminal.literal import literal
from cotenant.reporting.terminal.tables import sentence_list
from cotenant.text import NOTHING, figure, percent

if TYPE_CHECKING:
    from cotenant.analyse.variability.shared_power import SharedPower
    from cotenant.store.database.add import Added
    from cotenant.store.database.database import Sensor
    from cotenant.store.database.questions import Anomalies, Contents, GpuStory
    from cotenant.store.database.sensing import HeatOf, SensorPair

GPU_COLUMNS = ("GPU", "place", "runs", "ms", "x median", "MHz", "°C", "W", "slow")
TEXTS = (0, 1, 8)
"""Text columns; the others are right-aligned numbers."""
SLOWEST = 12
"""Rows of a GPU table without --all."""


def contents_parts(found: "Contents") -> tuple[RenderableType, ...]:
    """Sources, then work."""
    sources = [
        (one.name, one.kind, one.gpus, one.measurements, one.readings, one.added_utc[:10]) for one in found.sources
    ]
    works = [
        (one.name, "yes" if one.simulated else "", one.gpus, one.measurements, _span(one.first_s, one.last_s))
        for one in found.works
    ]
    parts: list[RenderableType] = [
        Text(literal(f"{found.home}: {len(found.sources):,} sources"), "bold"),
        listing(("source", "kind", "GPUs", "measurements", "readings", "added"), sources),
    ]
    if works:
        parts.append(listing(("work", "simulated", "GPUs", "measurements", "when"), works))
    return tuple(parts)


def added_parts(found: "Sequence[Added]") -> tuple[RenderableType, ...]:
    """The import result of each source, and what was left out."""
    rows = [
        (one.source.name, one.source.kind, one.how, one.source.gpus, one.source.measurements, one.source.readings)
        for one in found
    ]
    parts: list[RenderableType] = [listing(("source", "kind", "", "GPUs", "measurements", "readings"), rows)]
    left_out = [f"{one.source.name}: {sentence}" for one in found for sentence in one.source.left_out]
    return (*parts, sentence_list(left_out)) if left_out else tuple(parts)


def gpus_parts(found: Sequence[Variability], *, every: bool = False) -> tuple[RenderableType, ...]:
    """For each kind of work: sentences, sources of variance, GPUs from slow to fast."""
    if not found:
        return (Text("There are sensor readings but no measurements yet: cotenant db add RUN"),)
    parts: list[RenderableType] = []
    for one in found:
        parts.append(_title(one.work, simulated=one.simulated))
        parts.append(sentence_list(headline(one)))
        if levels := level_rows(one):
            parts.append(listing(level_columns(one), levels))
        parts += [Text(literal(note), "dim") for note in one.decomposition.notes]
        rows = gpu_rows(one)
        shown = rows if every else rows[:SLOWEST]
        parts.append(_gpu_table(shown, one.noun))
        if len(shown) < len(rows):
            parts.append(Text(f"and {len(rows) - len(shown):,} faster ones; --all shows them", "dim"))
    return tuple(parts)


def _title(work: str, *, simulated: bool) -> Text:
    return Text(literal(work), "bold underline") + Text(" SIMULATED" if simulated else "", "bold magenta")


def _gpu_table(rows: Sequence[tuple[str, ...]], noun: str) -> Table:
    """Names are never wrapped and empty columns are dropped, to fit a narrow page."""
    filled = [i for i, name in enumerate(GPU_COLUMNS) if i < 2 or any(row[i] not in {"", NOTHING} for row in rows)]
    table = Table.grid(padding=(0, 2, 0, 0))
    for i in filled:
        table.add_column(justify="left" if i in TEXTS else "right", no_wrap=i == 0, overflow="fold")
    table.add_row(*(Text(noun if i == 0 else GPU_COLUMNS[i], "bold") for i in filled))
    for row in rows:
        table.add_row(*(Text(literal(row[i])) for i in filled))
    return table


def gpu_parts(found: "GpuStory") -> tuple[RenderableType, ...]:
    """One GPU under every kind of work, then its anomalies."""
    rows = [
        (
            one.work,
            f"{one.place} of {one.of}",
            one.profile.runs,
            figure(one.profile.time_ms, 4),
            f"{one.profile.relative_time:.3f}",
            *_sensors(one.profile.clock_mhz, one.profile.temperature_c, one.profile.power_w),
            one.slow.cause if one.slow else "",
        )
        for one in found.works
    ]
    parts: list[RenderableType] = [Text(literal(found.gpu), "bold")]
    if rows:
        parts.append(listing(("work", "place", "runs", "ms", "x median", "MHz", "°C", "W", "slow"), rows))
    if found.sensors:
        parts.append(listing(("sensor", "readings"), list(found.sensors.items())))
    sentences = [slow_sentence(one.slow, one.noun) for one in found.works if one.slow]
    sentences += [change_sentence(change) for one in found.works for change in one.changes]
    sentences += [stuck_sentence(one.gpu, one.stuck) for one in found.stuck]
    said = [
        *(_shared_said(one) for one in found.shared),
        *map(pair_said, found.pairs),
        *(f"{one.source}: {heat_said(one)}" for one in found.heat),
    ]
    if said:
        parts.append(sentence_list(said))
    parts.append(sentence_list(sentences or ["No anomalies."]))
    return tuple(parts)


def heat_said(one: "HeatOf") -> str:
    """Its thermal model, or why there is none."""
    return f"No thermal model: {one.why_not}." if one.fit is None else heat_sentence(one.fit)


def _shared_said(one: "SharedPower") -> str:
    under = f", {one.settings}" if len(one.settings) > 2 else ""
    said = shared_sentence(one.power_w, one.watts, one.rule, simulated=one.simulated)
    return f"{one.source}{under}: {said}"


def sensor_parts(found: "Sequence[tuple[Sensor, str]]") -> tuple[RenderableType, ...]:
    """One line per sensor."""
    if not found:
        return (Text("There are no sensor readings yet: cotenant db add RUN"),)
    rows = [(one.gpu, one.sensor, one.origin, source, one.readings) for one, source in found]
    return (listing(("GPU", "sensor", "read by", "source", "readings"), rows),)


def pair_parts(found: "SensorPair") -> tuple[RenderableType, ...]:
    """Two sensors of the same quantity."""
    return (sentence_list([pair_said(found)]),)


def pair_said(found: "SensorPair") -> str:
    """How one sensor compares with another."""
    first, second = (f"{one.sensor} ({one.origin})" for one in (found.reference, found.other))
    return pair_sentence(first, second, found.other.unit, found.comparison)


def trend_parts(found: Mapping[str, Drift]) -> tuple[RenderableType, ...]:
    """By work: days, slope, changes."""
    parts: list[RenderableType] = []
    for work, drift in found.items():
        parts.append(_title(work, simulated=drift.simulated))
        slope = drift.per_month
        if slope.est is None:
            said = f"no slope: {getattr(slope, 'reason', '')}"
        else:
            ends = ", ".join(f"{end * 100:+.2f}" for end in (slope.lo or 0.0, slope.hi or 0.0))
            said = f"{slope.est * 100:+.2f} % [{ends}] per 30 days, over {drift.days:.0f} days"
        parts.append(Text(literal(said)))
        rows = [(day(at), f"{ratio:.4f}", runs) for at, ratio, runs in drift.daily[-30:]]
        parts.append(listing(("day", "x own median", "runs"), rows))
        if drift.changes:
            parts.append(sentence_list([change_sentence(change) for change in drift.changes]))
    return tuple(parts) or (Text("There are no measurements yet: cotenant db add RUN"),)


def anomaly_parts(found: "Anomalies") -> tuple[RenderableType, ...]:
    """One sentence each."""
    gpus = len({gpu.gpu for work in found.works for gpu in work.profiles})
    nouns = {work.noun for work in found.works}
    noun = nouns.pop() if len(nouns) == 1 else "device"
    nothing = f"No anomalies among {gpus:,} {noun}s under {len(found.works)} kinds of work."
    return (sentence_list(found.sentences() or [nothing]),)


def level_columns(one: Variability) -> tuple[str, ...]:
    """Columns of `level_rows`; a second mixed model if jobs are known."""
    jobs = ("with jobs",) if one.decomposition.with_jobs else ()
    return ("variance by", "groups", "alone", "chance", "added", "mixed model", *jobs)


def level_rows(one: Variability) -> list[tuple[str | int, ...]]:
    """Level, groups, and its share: alone, by chance, added to those before, and in each mixed model."""
    if not one.decomposition.levels:
        return []
    models = [{part.level: percent(part.share) for part in one.decomposition.components}]
    if one.decomposition.with_jobs:
        models.append({part.level: percent(part.share) for part in one.decomposition.with_jobs})
    rows: list[tuple[str | int, ...]] = [
        (
            one.noun if level.level == "gpu" else level.level,
            level.groups,
            percent(level.alone),
            percent(level.by_chance),
            percent(level.added),
            *(model.get(level.level, NOTHING) for model in models),
        )
        for level in one.decomposition.levels
    ]
    rest = (model.get("residual", NOTHING) for model in models)
    return [*rows, ("unexplained", one.variation.runs, "", "", percent(one.decomposition.unexplained), *rest)]


def gpu_rows(one: Variability) -> list[tuple[str, ...]]:
    """One line per GPU, slowest first."""
    causes = {slow.gpu: slow.cause for slow in one.slow}
    short = short_names([profile.gpu for profile in one.profiles])
    return [
        (
            short[profile.gpu],
            "/".join(part for part in (profile.cabinet, profile.node) if part),
            f"{profile.runs}",
            figure(profile.time_ms, 4),
            f"{profile.relative_time:.3f}",
            *_sensors(profile.clock_mhz, profile.temperature_c, profile.power_w),
            causes.get(profile.gpu, ""),
        )
        for profile in sorted(one.profiles, key=lambda profile: -profile.time_ms)
    ]


def _sensors(*values: float | None) -> tuple[str, ...]:
    return tuple(NOTHING if value is None else figure(value, 4) for value in values)


def _span(first: float | None, last: float | None) -> str:
    if first is None or last is None:
        return NOTHING
    return day(first) if day(first) == day(last) else f"{day(first)} to {day(last)}"


def short_names(gpus: Sequence[str]) -> dict[str, str]:
    """UUIDs shortened to their first part if unique; other names unchanged."""
    short = {gpu: "-".join(gpu.split("-")[:2]) if gpu.startswith("GPU-") else gpu for gpu in gpus}
    return short if len(set(short.values())) == len(short) else {gpu: gpu for gpu in gpus}
