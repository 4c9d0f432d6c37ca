"""Differences between GPUs, for a terminal."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cotenant.analyse.variability.drift import Drift
from cotenant.analyse.variability.summary import Variability
from cotenant.analyse.variability.wording import (
    change_sentence,
    day,
    headline,
    heat_sentence,
    pair_sentence,
    shared_sentence,
    slow_sentence,
    stuck_sentence,
)
from cotenant.reporting.elements.terminal import sentence_list
from cotenant.reporting.terminal.grouped import listing
from cotenant.reporting.terminal.literal import literal
from cotenant.text import NOTHING, figure, percent

if TYPE_CHECKING:
    from cotenant.analyse.variability.attribution import SharedPower
    from cotenant.store.database.add import Added
    from cotenant.store.database.database import SensorUse
    from cotenant.store.database.questions import Anomalies, Contents, GpuStory, HeatOf, SensorPair

GPU_COLUMNS = ("GPU", "place", "runs", "ms", "x median", "MHz", "°C", "W", "slow")
TEXTS = (0, 1, 8)
"""Text columns; the others are right-aligned numbers."""
SLOWEST = 12
"""Rows of a GPU table without --all."""


def contents_parts(contents: "Contents") -> tuple[RenderableType, ...]:
    """Sources, then work."""
    sources = [
        (source.name, source.kind, source.gpus, source.measurements, source.readings, source.added_utc[:10])
        for source in contents.sources
    ]
    works = [
        (work.name, "yes" if work.simulated else "", work.gpus, work.measurements, _span(work.first_s, work.last_s))
        for work in contents.works
    ]
    parts: list[RenderableType] = [
        Text(literal(f"{contents.home}: {len(contents.sources):,} sources"), "bold"),
        listing(("source", "kind", "GPUs", "measurements", "readings", "added"), sources),
    ]
    if works:
        parts.append(listing(("work", "simulated", "GPUs", "measurements", "when"), works))
    return tuple(parts)


def added_parts(additions: "Sequence[Added]") -> tuple[RenderableType, ...]:
    """The import result of each source, and what was left out."""
    rows = [
        (
            addition.source.name,
            addition.source.kind,
            addition.how,
            addition.source.gpus,
            addition.source.measurements,
            addition.source.readings,
        )
        for addition in additions
    ]
    parts: list[RenderableType] = [listing(("source", "kind", "", "GPUs", "measurements", "readings"), rows)]
    left_out = [
        f"{addition.source.name}: {sentence}" for addition in additions for sentence in addition.source.left_out
    ]
    return (*parts, sentence_list(left_out)) if left_out else tuple(parts)


def gpus_parts(works: Sequence[Variability], *, every: bool = False) -> tuple[RenderableType, ...]:
    """For each kind of work: sentences, sources of variance, GPUs from slow to fast."""
    if not works:
        return (Text("There are sensor readings but no measurements yet: cotenant db add RUN"),)
    parts: list[RenderableType] = []
    for addition in works:
        parts.append(_title(addition.work, simulated=addition.simulated))
        parts.append(sentence_list(headline(addition)))
        if levels := level_rows(addition):
            parts.append(listing(level_columns(addition), levels))
        parts += [Text(literal(note), "dim") for note in addition.decomposition.notes]
        rows = gpu_rows(addition)
        shown = rows if every else rows[:SLOWEST]
        parts.append(_gpu_table(shown, addition.noun))
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


def gpu_parts(story: "GpuStory") -> tuple[RenderableType, ...]:
    """One GPU under every kind of work, then its anomalies."""
    rows = [
        (
            work.work,
            f"{work.place} of {work.of}",
            work.profile.runs,
            figure(work.profile.time_ms, 4),
            f"{work.profile.relative_time:.3f}",
            *_sensors(work.profile.clock_mhz, work.profile.temperature_c, work.profile.power_w),
            work.slow.cause if work.slow else "",
        )
        for work in story.works
    ]
    parts: list[RenderableType] = [Text(literal(story.gpu), "bold")]
    if rows:
        parts.append(listing(("work", "place", "runs", "ms", "x median", "MHz", "°C", "W", "slow"), rows))
    if story.sensors:
        parts.append(listing(("sensor", "readings"), list(story.sensors.items())))
    sentences = [slow_sentence(work.slow, work.noun) for work in story.works if work.slow]
    sentences += [change_sentence(change) for work in story.works for change in work.changes]
    sentences += [stuck_sentence(gpu.gpu, gpu.stuck) for gpu in story.stuck]
    models = [
        *(_shared_said(power) for power in story.shared),
        *map(pair_said, story.pairs),
        *(f"{heat.source}: {heat_said(heat)}" for heat in story.heat),
    ]
    if models:
        parts.append(sentence_list(models))
    parts.append(sentence_list(sentences or ["No anomalies."]))
    return tuple(parts)


def heat_said(heat: "HeatOf") -> str:
    """Its thermal model, or why there is none."""
    return f"No thermal model: {heat.why_not}." if heat.fit is None else heat_sentence(heat.fit)


def _shared_said(power: "SharedPower") -> str:
    under = f", {power.settings}" if len(power.settings) > 2 else ""
    sentence = shared_sentence(power.power_w, power.watts, power.rule, simulated=power.simulated)
    return f"{power.source}{under}: {sentence}"


def sensor_parts(sensors: "Sequence[tuple[SensorUse, str]]") -> tuple[RenderableType, ...]:
    """One line per sensor."""
    if not sensors:
        return (Text("There are no sensor readings yet: cotenant db add RUN"),)
    rows = [(sensor.gpu, sensor.sensor, sensor.origin, source, sensor.readings) for sensor, source in sensors]
    return (listing(("GPU", "sensor", "read by", "source", "readings"), rows),)


def pair_parts(pair: "SensorPair") -> tuple[RenderableType, ...]:
    """Two sensors of the same quantity."""
    return (sentence_list([pair_said(pair)]),)


def pair_said(pair: "SensorPair") -> str:
    """How one sensor compares with another."""
    first, second = (f"{sensor.sensor} ({sensor.origin})" for sensor in (pair.reference, pair.other))
    return pair_sentence(first, second, pair.other.unit, pair.comparison)


def trend_parts(drifts: Mapping[str, Drift]) -> tuple[RenderableType, ...]:
    """By work: days, slope, changes."""
    parts: list[RenderableType] = []
    for work, drift in drifts.items():
        parts.append(_title(work, simulated=drift.simulated))
        slope = drift.per_month
        if slope.est is None:
            sentence = f"no slope: {getattr(slope, 'reason', '')}"
        else:
            ends = ", ".join(f"{end * 100:+.2f}" for end in (slope.lo or 0.0, slope.hi or 0.0))
            sentence = f"{slope.est * 100:+.2f} % [{ends}] per 30 days, over {drift.days:.0f} days"
        parts.append(Text(literal(sentence)))
        rows = [(day(at), f"{ratio:.4f}", runs) for at, ratio, runs in drift.daily[-30:]]
        parts.append(listing(("day", "x own median", "runs"), rows))
        if drift.changes:
            parts.append(sentence_list([change_sentence(change) for change in drift.changes]))
    return tuple(parts) or (Text("There are no measurements yet: cotenant db add RUN"),)


def anomaly_parts(anomalies: "Anomalies") -> tuple[RenderableType, ...]:
    """One sentence each."""
    gpus = len({gpu.gpu for work in anomalies.works for gpu in work.profiles})
    nouns = {work.noun for work in anomalies.works}
    noun = nouns.pop() if len(nouns) == 1 else "device"
    nothing = f"No anomalies among {gpus:,} {noun}s under {len(anomalies.works)} kinds of work."
    return (sentence_list(anomalies.sentences() or [nothing]),)


def level_columns(work: Variability) -> tuple[str, ...]:
    """Columns of `level_rows`; a second mixed model if jobs are known."""
    jobs = ("with jobs",) if work.decomposition.with_jobs else ()
    return ("variance by", "groups", "alone", "chance", "added", "mixed model", *jobs)


def level_rows(work: Variability) -> list[tuple[str | int, ...]]:
    """Level, groups, and its share: alone, by chance, added to those before, and in each mixed model."""
    if not work.decomposition.levels:
        return []
    models = [{part.level: percent(part.share) for part in work.decomposition.components}]
    if work.decomposition.with_jobs:
        models.append({part.level: percent(part.share) for part in work.decomposition.with_jobs})
    rows: list[tuple[str | int, ...]] = [
        (
            work.noun if level.level == "gpu" else level.level,
            level.groups,
            percent(level.alone),
            percent(level.by_chance),
            percent(level.added),
            *(model.get(level.level, NOTHING) for model in models),
        )
        for level in work.decomposition.levels
    ]
    rest = (model.get("residual", NOTHING) for model in models)
    return [*rows, ("unexplained", work.variation.runs, "", "", percent(work.decomposition.unexplained), *rest)]


def gpu_rows(work: Variability) -> list[tuple[str, ...]]:
    """One line per GPU, slowest first."""
    causes = {slow.gpu: slow.cause for slow in work.slow}
    short = short_names([profile.gpu for profile in work.profiles])
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
        for profile in sorted(work.profiles, key=lambda profile: -profile.time_ms)
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
