"""Differences between GPUs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cotenant.analyse.variability import (
    Drift,
    Variability,
    change_sentence,
    day,
    headline,
    heat_sentence,
    pair_sentence,
    shared_sentence,
    slow_sentence,
    stuck_sentence,
)
from cotenant.reporting.elements import SIMULATED, DataTable, Element, Remark, Sentence, Sentences
from cotenant.text import NOTHING, amount, figure, percent

if TYPE_CHECKING:
    from cotenant.analyse.variability import SharedPower
    from cotenant.store.database import Added, Anomalies, Contents, GpuStory, HeatOf, SensorPair, SensorUse

GPU_COLUMNS = ("GPU", "place", "runs", "ms", "x median", "MHz", "°C", "W", "slow")
TEXTS = (0, 1, 8)
"""Text columns; the others are right-aligned numbers."""
SLOWEST = 12
"""Rows of a GPU table without --all."""


def contents_elements(contents: "Contents") -> list[Element]:
    """Sources, then work."""
    sources = [
        (source.name, source.kind, source.gpus, source.measurements, source.readings, source.added_utc[:10])
        for source in contents.sources
    ]
    works = [
        (work.name, "yes" if work.simulated else "", work.gpus, work.measurements, _span(work.first_s, work.last_s))
        for work in contents.works
    ]
    parts: list[Element] = [
        Sentence(f"{contents.home}: {amount(len(contents.sources), 'source')}", "answer"),
        DataTable(("source", "kind", "GPUs", "measurements", "readings", "added"), tuple(sources)),
    ]
    if works:
        parts.append(DataTable(("work", "simulated", "GPUs", "measurements", "when"), tuple(works)))
    return parts


def added_elements(additions: "Sequence[Added]") -> list[Element]:
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
    left_out = tuple(
        f"{addition.source.name}: {sentence}" for addition in additions for sentence in addition.source.left_out
    )
    table = DataTable(("source", "kind", "", "GPUs", "measurements", "readings"), tuple(rows))
    return [table, *([Sentences(left_out)] if left_out else ())]


def gpus_elements(works: Sequence[Variability], *, every: bool = False) -> list[Element]:
    """For each kind of work: sentences, sources of variance, GPUs from slow to fast."""
    if not works:
        return [Sentence("There are sensor readings but no measurements yet: cotenant db add RUN")]
    parts: list[Element] = []
    for addition in works:
        parts += [_title(addition.work, simulated=addition.simulated), Sentences(tuple(headline(addition)))]
        if levels := level_rows(addition):
            parts.append(DataTable(level_columns(addition), tuple(levels)))
        parts += [Remark(note) for note in addition.decomposition.notes]
        rows = gpu_rows(addition)
        shown = rows if every else rows[:SLOWEST]
        parts.append(_gpu_table(shown, addition.noun))
        if len(shown) < len(rows):
            parts.append(Remark(f"and {len(rows) - len(shown):,} faster ones; --all shows them"))
    return parts


def _title(work: str, *, simulated: bool) -> Sentence:
    return Sentence(f"{work} {SIMULATED}" if simulated else work, "title")


def _gpu_table(rows: Sequence[tuple[str, ...]], noun: str) -> DataTable:
    """Empty columns are dropped, to fit a narrow page."""
    filled = [i for i, _ in enumerate(GPU_COLUMNS) if i < 2 or any(row[i] not in {"", NOTHING} for row in rows)]
    columns = tuple(noun if i == 0 else GPU_COLUMNS[i] for i in filled)
    numbers = frozenset(GPU_COLUMNS[i] for i in filled if i not in TEXTS)
    return DataTable(columns, tuple(tuple(row[i] for i in filled) for row in rows), numbers=numbers, ruled=False)


def gpu_elements(story: "GpuStory") -> list[Element]:
    """One GPU under every kind of work, then its anomalies."""
    rows = [
        (
            work.work,
            f"{work.place} of {work.of}",
            work.profile.runs,
            figure(work.profile.time_ms, 4),
            f"{work.profile.relative_time.est:.3f}",
            *_sensors(work.profile.clock_mhz, work.profile.temperature_c, work.profile.power_w),
            work.slow.cause if work.slow else "",
        )
        for work in story.works
    ]
    parts: list[Element] = [Sentence(story.gpu, "answer")]
    if rows:
        parts.append(DataTable(("work", *GPU_COLUMNS[1:]), tuple(rows)))
    if story.sensors:
        parts.append(DataTable(("sensor", "readings"), tuple(story.sensors.items())))
    sentences = [slow_sentence(work.slow, work.noun) for work in story.works if work.slow]
    sentences += [change_sentence(change) for work in story.works for change in work.changes]
    sentences += [stuck_sentence(gpu.gpu, gpu.stuck) for gpu in story.stuck]
    models = [
        *(_shared_said(power) for power in story.shared),
        *map(pair_said, story.pairs),
        *(f"{heat.source}: {heat_said(heat)}" for heat in story.heat),
    ]
    if models:
        parts.append(Sentences(tuple(models)))
    return [*parts, Sentences(tuple(sentences or ["No anomalies."]))]


def heat_said(heat: "HeatOf") -> str:
    """Its thermal model, or why there is none."""
    return f"No thermal model: {heat.why_not}." if heat.fit is None else heat_sentence(heat.fit)


def _shared_said(power: "SharedPower") -> str:
    under = f", {power.settings}" if len(power.settings) > 2 else ""
    sentence = shared_sentence(power.power_w, power.watts, power.rule, simulated=power.simulated)
    return f"{power.source}{under}: {sentence}"


def sensor_elements(sensors: "Sequence[tuple[SensorUse, str]]") -> list[Element]:
    """One line per sensor."""
    if not sensors:
        return [Sentence("There are no sensor readings yet: cotenant db add RUN")]
    rows = [(sensor.gpu, sensor.sensor, sensor.origin, source, sensor.readings) for sensor, source in sensors]
    return [DataTable(("GPU", "sensor", "read by", "source", "readings"), tuple(rows))]


def pair_elements(pair: "SensorPair") -> list[Element]:
    """Two sensors of the same quantity."""
    return [Sentences((pair_said(pair),))]


def pair_said(pair: "SensorPair") -> str:
    """How one sensor compares with another."""
    first, second = (f"{sensor.sensor} ({sensor.origin})" for sensor in (pair.reference, pair.other))
    return pair_sentence(first, second, pair.other.unit, pair.comparison)


def trend_elements(drifts: Mapping[str, Drift]) -> list[Element]:
    """By work: days, slope, changes."""
    parts: list[Element] = []
    for work, drift in drifts.items():
        parts.append(_title(work, simulated=drift.simulated))
        slope = drift.per_month
        if slope.est is None:
            sentence = f"no slope: {getattr(slope, 'reason', '')}"
        else:
            ends = ", ".join(f"{end * 100:+.2f}" for end in (slope.lo or 0.0, slope.hi or 0.0))
            sentence = f"{slope.est * 100:+.2f} % [{ends}] per 30 days, over {drift.days:.0f} days"
        rows = tuple((day(at), f"{ratio:.4f}", runs) for at, ratio, runs in drift.daily[-30:])
        parts += [Sentence(sentence), DataTable(("day", "x own median", "runs"), rows)]
        if drift.changes:
            parts.append(Sentences(tuple(map(change_sentence, drift.changes))))
    return parts or [Sentence("There are no measurements yet: cotenant db add RUN")]


def anomaly_elements(anomalies: "Anomalies") -> list[Element]:
    """One sentence each."""
    gpus = len({gpu.gpu for work in anomalies.works for gpu in work.profiles})
    nouns = {work.noun for work in anomalies.works}
    noun = nouns.pop() if len(nouns) == 1 else "device"
    nothing = f"No anomalies among {gpus:,} {noun}s under {len(anomalies.works)} kinds of work."
    return [Sentences(tuple(anomalies.sentences() or [nothing]))]


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
            f"{profile.relative_time.est:.3f}",
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
