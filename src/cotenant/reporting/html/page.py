"""The complete report as one HTML text."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from cotenant import __version__
from cotenant.analyse.decision import MeasuredObjective, headline, objective_of
from cotenant.analyse.result import mostly_valid
from cotenant.analyse.sharing import CHECK_WORDS, Cell, TenantSummary
from cotenant.measure.checks import CHECKS
from cotenant.reporting.elements.html import fragment, template_environment
from cotenant.reporting.figures.every import Drawn
from cotenant.reporting.figures.figure import Figure, Row
from cotenant.reporting.figures.latency import SLOWDOWN_UNDERSTANDING as UNDERSTANDING_SLOWDOWN
from cotenant.reporting.figures.latency import (
    TIMELINE,
    UNDERSTANDING,
    mix_curve_rows,
    mix_curves_spec,
    timeline_rows,
    timeline_spec,
)
from cotenant.reporting.figures.material import Material, RunFacts
from cotenant.reporting.figures.names import Condition
from cotenant.reporting.html.assets import columnar, embedded_json, markup, policy, resource, scripts
from cotenant.reporting.html.matrix import Matrix, heat_maps, matrix_of
from cotenant.reporting.html.tenant_lines import HEADS, keys, tenant_lines, token_lines
from cotenant.reporting.results.copied import copies_grouped
from cotenant.reporting.results.decided import devices_elements
from cotenant.reporting.results.measured import errors_by_class, table_elements
from cotenant.reporting.results.methods import methods_elements
from cotenant.reporting.results.predicted import answer, map_elements
from cotenant.store.manifest import PROFILE_PASS
from cotenant.text import ratio, with_interval, without_interval

MOST_TRIALS_LISTED = 200
MOST_MIX_POINTS = 6_000
"""Total over all mixes, to limit the size of the page."""

MOST_LINES = 60
"""Of a figure that is not folded: about a dozen in each of five panels."""
NAMES = ("place", "tenant", "line", "mix", "sharing", "label")
"""What sets the lines of a figure apart."""
MANY_RUNS = 3
"""Their figures, one below the other, are folded: the devices stand side by side at the top."""
MOST_MIXES = 8
"""Of the matrix, until all are asked for."""

SECTIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "sweeps": ("Clocks and power limits", ("sweeps",)),
    "latency": ("Latency", ("latency",)),
    "work": ("Work and fairness", ("stp", "fairness")),
    "throughput": ("Throughput", ("throughput",)),
    "load": ("Load and latency", ("load",)),
    "stages": ("Stages", ("stages",)),
    "roofline": ("Roofline", ("roofline",)),
    "sensors": ("Sensors", ("sensors",)),
}
"""Sections made only of figures, in reading order."""


def run_page(material: Material, drawn: Mapping[str, Drawn], *, links: str = "") -> str:
    """One HTML text without external resources.

    Args:
        material: Contents of the report.
        drawn: Its figures.
        links: HTML of navigation links to put on top.
    """
    texts = scripts()
    shown = [figure for kind, many in drawn.items() if kind not in {"slowdown", "devices"} for figure in many]
    template = template_environment().get_template("report.html.j2")
    matrix = matrix_of(material, material.answer, keys(material))
    data = _data(material, [figure for figure in shown if isinstance(figure, Figure)], drawn, matrix.chosen)
    sections = [
        *_members(material, drawn),
        *(
            (anchor, title, [figure for kind in kinds for figure in drawn[kind]], ())
            for anchor, (title, kinds) in SECTIONS.items()
        ),
    ]
    if not matrix.lines:  # without mixes, stages say more than latencies
        sections.sort(key=lambda section: section[0] not in {"sweeps", "stages", "variability"})
    return template.render(
        title=_title(material),
        links=markup(links),
        version=__version__,
        policy=policy(texts),
        style=markup(resource("templates", "report.css")),
        scripts=[markup(text) for text in texts],
        data=markup(embedded_json(data)),
        material=material,
        headline=material.opening if material.trials else [],
        verdict_said=_verdict_said(material),
        matrix=matrix,
        beside="" if material.beside is None else fragment(devices_elements(material.beside)),
        verdicts=_verdicts(material),
        caution=_caution(material),
        heat_maps=heat_maps(material),
        predictions=[(answer(prediction), map_elements(prediction)) for prediction in material.predictions],
        understanding_slowdown=UNDERSTANDING_SLOWDOWN,
        understanding_curves=UNDERSTANDING,
        understanding_timeline=TIMELINE,
        mixes=_mixes(material, matrix),
        token_heads=HEADS,
        sections=[
            (anchor, title, figures, sentences)
            for anchor, title, many, sentences in sections
            if (figures := [figure for figure in many if isinstance(figure, Figure)]) or sentences
        ],
        folded=[
            anchor
            for anchor, _, many, _ in sections
            if anchor == "sensors" or (anchor != "variability" and (len(material.runs) >= MANY_RUNS or _crowded(many)))
        ],
        most_lines=MOST_MIXES,
        methods=fragment(methods_elements(material.result)),
        absent=[figure for many in drawn.values() for figure in many if not isinstance(figure, Figure)],
        tables=table_elements(material.result),
        checks=_checks(material),
        bad_trials=_bad_trials(material),
        most_trials=MOST_TRIALS_LISTED,
        runs=[_run(run) for run in material.runs],
    )


def _verdict_said(material: Material) -> str:
    """The verdict of the first sentence; empty if that is a finding and not a decision."""
    main = material.answer.main
    return main.verdict if main is not None and list(material.opening) == headline(material.answer) else ""


def _crowded(figures: Drawn) -> bool:
    """Too many lines to tell apart: the detail of each cell shows them few at a time."""
    return any(
        len({tuple(row.get(name) for name in NAMES) for row in figure.rows}) > MOST_LINES
        for figure in figures
        if isinstance(figure, Figure)
    )


def _members(material: Material, drawn: Mapping[str, Drawn]) -> list[tuple[str, str, Drawn, Sequence[str]]]:
    """Differences between the members of a group, for runs with several."""
    if material.fleet is None:
        return []
    from cotenant.analyse.variability import anomalies, stuck_sentence  # needs a lot, rarely used
    from cotenant.analyse.variability import headline as spread

    sentences = [line for work in material.fleet.works for line in (*spread(work.found), *anomalies(work.found))]
    sentences += [stuck_sentence(gpu.gpu, gpu.stuck) for gpu in material.fleet.stuck]
    return [("variability", "Variability between devices", drawn.get("variability", ()), sentences)]


def _title(material: Material) -> str:
    studies = list(dict.fromkeys(str(run.manifest.get("study_name") or "a run") for run in material.runs))
    return ", ".join(studies) + (f": {len(material.runs)} runs" if len(material.runs) > 1 else "")


def _data(material: Material, shown: Sequence[Figure], drawn: Mapping[str, Drawn], chosen: str) -> dict[str, Any]:
    """Data for the page's script."""
    key_of = keys(material)
    cells = [cell for cell in key_of if not cell.solo]
    each = MOST_MIX_POINTS // max(1, len(cells))
    solos: dict[tuple[str, Condition], list[Any]] = {}
    for curve in material.curves:
        if curve.cell.solo:
            solos.setdefault((curve.cell.run, Condition.of(curve.cell)), []).append(curve)
    return {
        "chosen": chosen,
        "figures": {
            figure.name: {"spec": figure.spec, "margin": figure.margin} | columnar(figure.rows) for figure in shown
        }
        # The heat map is a table of the page; its rows are only for download.
        | {"slowdown": columnar(_slowdowns(drawn["slowdown"]))},
        "mixes": {
            key_of[cell]: {
                "curves": columnar(
                    mix_curve_rows(material, cell, solos.get((cell.run, Condition.of(cell)), []), min(600, each))
                ),
                "timeline": columnar(timeline_rows(material, cell)),
            }
            for cell in cells
        },
        "mix_specs": {
            "curves": {"spec": mix_curves_spec(), "margin": 56},
            "timeline": {"spec": timeline_spec(), "margin": 56},
        },
    }


def _slowdowns(drawn: Drawn) -> list[Row]:
    return [
        {"condition": figure.condition} | {name: value for name, value in row.items() if name not in {"line", "log2"}}
        for figure in drawn
        if isinstance(figure, Figure)
        for row in figure.rows
    ]


def _mixes(material: Material, matrix: Matrix) -> list[dict[str, Any]]:
    """The tables of every mix, hidden until it is selected."""
    alone: dict[tuple[str, Condition], dict[str, MeasuredObjective]] = {}
    for tenant in material.summary.tenants:
        if tenant.cell.solo and (objective := objective_of(tenant)) is not None:
            alone.setdefault((tenant.cell.run, Condition.of(tenant.cell)), {})[tenant.of] = objective
    members: dict[Cell, list[TenantSummary]] = {}
    for tenant in material.summary.tenants:
        members.setdefault(tenant.cell, []).append(tenant)
    copies = {cell: copies_grouped(tenants) for cell, tenants in members.items()}
    trials: dict[Cell, list[Any]] = {}
    for trial in material.trials:
        trials.setdefault(trial.cell, []).append(trial)
    key_of = keys(material)
    solos: dict[tuple[str, Condition], list[TenantSummary]] = {}
    for tenant in material.summary.tenants:
        if tenant.cell.solo:
            solos.setdefault((tenant.cell.run, Condition.of(tenant.cell)), []).append(tenant)
    return [
        {
            "key": key_of[mix.cell],
            "name": material.names.cell(mix.cell),
            "sentence": matrix.sentences.get(key_of[mix.cell], ""),
            "layouts": matrix.layouts.get(key_of[mix.cell], ()),
            "colour": material.ways.colour(mix.cell.sharing),
            "work": with_interval(mix.metrics["stp"], ratio),
            "fairness": without_interval(mix.metrics["fairness"], ratio),
            "tenants": tenant_lines(copies[mix.cell], alone.get((mix.cell.run, Condition.of(mix.cell)))),
            "tokens": token_lines(copies[mix.cell], solos.get((mix.cell.run, Condition.of(mix.cell)), ())),
            "verdict": mix.verdict,
            "trials": sum(mix.trials_by_verdict.values()),
            "bad": [trial for trial in trials.get(mix.cell, []) if trial.verdict != "valid"][:6],
            "blocks": mix.blocks,
        }
        for mix in material.summary.mixes
        if not mix.cell.solo
    ]


def _verdicts(material: Material) -> dict[str, int]:
    count = Counter(trial.verdict for trial in material.trials)
    return {verdict: count[verdict] for verdict in ("valid", "unstable", "invalid") if count[verdict]}


def _caution(material: Material) -> str:
    """A warning before any advice if fewer than half of the trials are valid, yet some are usable."""
    count = Counter(trial.verdict for trial in material.trials)
    if not count["unstable"] or mostly_valid(count):
        return ""
    failed = Counter(check for trial in material.trials for check in set(trial.failed_checks))
    few = f"Only {count['valid']}" if count["valid"] else "None"
    commonest = "".join(
        f", most often because {CHECK_WORDS.get(name, f'{name} failed')} ({times} trials)"
        for name, times in failed.most_common(1)
    )
    return (
        f"{few} of {count.total()} trials {'is' if count['valid'] <= 1 else 'are'} valid{commonest}. "
        "The results below can settle a factor of two, but not a few percent."
    )


def _checks(material: Material) -> list[dict[str, Any]]:
    failed = Counter(check for trial in material.trials for check in set(trial.failed_checks))
    known = [
        {
            "name": check.name,
            "meaning": check.meaning,
            "hint": check.hint,
            "when_failed": check.when_failed,
            "failed": failed.pop(check.name, 0),
        }
        for check in CHECKS.values()
    ]
    unknown = [
        {"name": name, "meaning": "unknown to this version", "hint": "", "when_failed": "invalid", "failed": count}
        for name, count in failed.items()
    ]
    return sorted([*known, *unknown], key=lambda check: -int(str(check["failed"])))


def _bad_trials(material: Material) -> list[dict[str, Any]]:
    return [
        {
            "run": material.names.run(trial.cell.run),
            "trial": trial.trial,
            "block": trial.block + 1,
            "place": material.names.cell(trial.cell),
            "verdict": trial.verdict,
            "checks": ", ".join(trial.failed_checks),
            "reasons": trial.reasons,
        }
        for trial in material.trials
        if trial.verdict != "valid"
    ]


def _run(run: RunFacts) -> dict[str, Any]:
    """The main facts of a run, and its complete manifest."""
    manifest = run.manifest
    study = manifest.get("study", "")
    described = manifest.get("device_description")
    return {
        "letter": run.letter,
        "identity": run.identity,
        "path": str(run.path),
        "study_name": str(manifest.get("study_name") or "–"),  # noqa: RUF001 - a dash where there is nothing
        "study": study if isinstance(study, str) else json.dumps(study, indent=1, ensure_ascii=False),
        "device": str(manifest.get("device") or "–"),  # noqa: RUF001 - a dash where there is nothing
        "simulated": bool(manifest.get("simulated")),
        "errors": errors_by_class(manifest),
        "profile_pass": PROFILE_PASS in manifest,
        "state": str(manifest.get("why") or manifest.get("state") or "–"),  # noqa: RUF001 - the same
        "left_out": [str(sharing) for sharing in manifest.get("left_out") or ()],
        "facts": _flat(described if isinstance(described, Mapping) else {}),
        "sessions": [_flat(session) for session in manifest.get("sessions") or () if isinstance(session, Mapping)],
        "sensors": [sensor for sensor in manifest.get("sensors") or () if isinstance(sensor, Mapping)],
        "instrument": _flat(instrument) if isinstance(instrument := manifest.get("instrument"), Mapping) else {},
        "seed": manifest.get("seed"),
    }


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested facts as a flat list: `git commit`, `git dirty`."""
    lines: dict[str, str] = {}
    for key, value in data.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            lines |= _flat(value, f"{name} ")
        elif isinstance(value, (list, tuple)):
            lines[name] = " ".join(map(str, value))
        elif value is not None and value != "":
            lines[name] = {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
    return lines
