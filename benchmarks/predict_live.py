"""Predictions on this machine against measurements: pairs and triples of ten small models.

    python benchmarks/predict_live.py                 measure the study `predict-truth` first (half an hour)
    python benchmarks/predict_live.py RUN             judge by a run of it
    python benchmarks/predict_live.py RUN --write     also write docs/predict-live.md and docs/data/predict-truth.csv
    python benchmarks/predict_live.py RUN --truth docs/data/predict-truth.csv --write
                                                      mixes of that file, solos of RUN: for a changed predictor

A prediction sees the run's solos and the pairs chosen by `next`, and is judged by all other pairs and the triples.
Prints one JSON document. Measure on an otherwise idle machine.
"""

import argparse
import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import cotenant
from cotenant.prediction.interference.forecasting import Asked, evidence_of, predictor_for
from cotenant.prediction.interference.gathered import MeasuredMix
from cotenant.prediction.interference.next_cells import choose_next_cells
from cotenant.prediction.interference.setting import mixes_of
from cotenant.store.learnt import learnt
from cotenant.study.files import load_study
from cotenant.study.prediction_inputs import asked_of, place_of
from cotenant.tenancy.identity import TenantIdentity
from cotenant.tenancy.interval import Estimate

STUDY = "predict-truth"
GIVEN = 22
"""Pairs given to a prediction: two per model and two more."""
DOCS = Path(__file__).resolve().parent.parent / "docs"


def judge(
    run: Path, device: str | None = None, truth: Path | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Errors by way to share and size of the mix, and one row per victim.

    Args:
        run: A run with the solos and, without ``truth``, the mixes.
        device: Overrides the study's device.
        truth: Measured mixes as written by an earlier call.
    """
    study = load_study(STUDY)
    place = place_of(study, device)
    asked = asked_of(study, place, learnt([run], place), study_name=STUDY)
    if truth is not None:
        asked = replace(asked, mixes=_mixes_of(truth, asked))
    found: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    for sharing in dict.fromkeys(mix.sharing for mix in asked.mixes):
        mine = [mix for mix in asked.mixes if mix.sharing == sharing]
        given = _given(asked, mine, sharing)
        rows += _judged(replace(asked, mixes=tuple(given)), mine, given, sharing, place.cores)
    for sharing in dict.fromkeys(row["sharing"] for row in rows):
        for size, name in ((2, "pairs"), (3, "triples")):
            some = [row for row in rows if row["sharing"] == sharing and row["size"] == size and not row["given"]]
            if some:
                found[f"{name}, {sharing}"] = _summary(some)
    return found, rows


def _mixes_of(truth: Path, asked: Asked) -> tuple[MeasuredMix, ...]:
    found: dict[tuple[str, str], list[tuple[TenantIdentity, Estimate]]] = {}
    keys = dict(zip(asked.names, asked.keys, strict=True))
    with truth.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            est, low, high = (float(row[column]) for column in ("slowdown", "low", "high"))
            slowdown = Estimate(est, low, high, int(row["blocks"]), "of an earlier run")
            found.setdefault((row["sharing"], row["mix"]), []).append((keys[row["tenant"]], slowdown))
    return tuple(
        MeasuredMix(sharing, tuple(sorted((keys[name] for name in mix.split("+")), key=str)), tuple(slowdowns))
        for (sharing, mix), slowdowns in found.items()
    )


def _given(asked: Asked, mixes: list[MeasuredMix], sharing: str) -> list[MeasuredMix]:
    """The pairs that `next` would have chosen, one by one, before any was measured."""
    pairs = [mix for mix in mixes if len(mix.members) == 2]
    nothing = predictor_for(replace(asked, mixes=()), sharing)
    rows = mixes_of([[asked.keys.index(key) for key in mix.members] for mix in pairs])
    return [pairs[place] for place, _ in choose_next_cells(nothing.correction, rows, GIVEN)]


def _judged(
    asked: Asked, mixes: list[MeasuredMix], given: list[MeasuredMix], sharing: str, cores: int
) -> list[dict[str, Any]]:
    predictor = predictor_for(asked, sharing)
    typical = float(np.exp(np.median(evidence_of(given, asked.keys).logs)))
    rows = []
    for mix in mixes:
        places = [asked.keys.index(key) for key in mix.members]
        found = predictor.slowdowns(mixes_of([places]))
        threads = sum(key.threads or cores for key in mix.members)
        for key, estimate in mix.slowdowns:
            place = mix.members.index(key)
            rows.append(
                {
                    "mix": "+".join(asked.names[one] for one in places),
                    "sharing": sharing,
                    "size": len(places),
                    "tenant": asked.names[asked.keys.index(key)],
                    "slowdown": estimate.est,
                    "low": estimate.lo,
                    "high": estimate.hi,
                    "blocks": estimate.n,
                    "given": mix in given,
                    "predicted": float(found.estimate[0, place]),
                    "predicted_low": _known(found.low[0, place]),
                    "predicted_high": _known(found.high[0, place]),
                    "constant": typical,
                    "threads_over_cores": max(1.0, threads / max(cores, 1)),
                }
            )
    return rows


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    def error(column: str) -> float:
        return round(100 * float(np.mean([abs(row[column] / row["slowdown"] - 1) for row in rows])), 1)

    bounded = [row for row in rows if row["predicted_low"] is not None]
    inside = [row["predicted_low"] <= row["slowdown"] <= row["predicted_high"] for row in bounded]
    within = [_apart(row) <= 1 for row in bounded]
    return {
        "victims": len(rows),
        "error_percent": error("predicted"),
        "constant_percent": error("constant"),
        "threads_over_cores_percent": error("threads_over_cores"),
        "intervals_hold_percent": round(100 * float(np.mean(inside)), 1) if inside else None,
        "hold_within_noise_percent": round(100 * float(np.mean(within)), 1) if within else None,
        "measured_to_percent": round(100 * float(np.median([_half(row["low"], row["high"]) for row in rows])), 1),
    }


def _apart(row: dict[str, Any]) -> float:
    """Distance of prediction and measurement in half-widths of their difference: a measured value has an error too."""
    off = math.log(row["slowdown"] / row["predicted"])
    predicted = math.log(
        row["predicted_high"] / row["predicted"] if off > 0 else row["predicted"] / row["predicted_low"]
    )
    return abs(off) / math.hypot(predicted, _half(row["low"], row["high"]))


def _half(low: float, high: float) -> float:
    return math.log(high / low) / 2


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _write(found: dict[str, Any], rows: list[dict[str, Any]], source: str) -> None:
    (DOCS / "data").mkdir(exist_ok=True)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()} for row in rows
    )
    (DOCS / "data" / "predict-truth.csv").write_text(text.getvalue(), encoding="utf-8")
    table = [
        f"| {name} | {one['victims']} | {one['error_percent']} | {one['constant_percent']} "
        f"| {one['threads_over_cores_percent']} | {one['measured_to_percent']} | {one['intervals_hold_percent']} "
        f"| {one['hold_within_noise_percent']} |"
        for name, one in found.items()
    ]
    lines = [
        "# Predictions on a CPU, beside what was measured",
        "",
        (
            f"Written by `python benchmarks/predict_live.py RUN --write` from {source} of the study `{STUDY}`. A "
            f"prediction sees the solos and {GIVEN} pairs per way to share, chosen by `next`; the other pairs and all "
            "triples judge it. Every measured slowdown is in [predict-truth.csv](data/predict-truth.csv)."
        ),
        "",
        (
            "| what | victims | predicted, % off | constant | max(1, threads / cores) | measured to ±% "
            "| 90 % intervals that contain the measured value, % | with its own error, % |"
        ),
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        *table,
        "",
        (
            "A measured value has an error too: the last column counts an interval as right if the distance lies "
            "within both errors."
        ),
        "",
        (
            "The prior's demand for cores (by threads), its constant for crowded cores and the half-width of groups "
            "were set with this set in view, the constant with triples under `processes` only, the half-width as the "
            "widest that its models ask for, each left out in turn. Tenants of one process also wait for its "
            "interpreter lock, of which the prior knows nothing: hence the larger errors under `threads`."
        ),
        "",
        (
            "Slowdowns below 1 are real here: libraries let the second thread of a tenant sleep between operations, "
            "and on a virtual machine waking it on an idle core takes longer than on one a neighbour keeps awake."
        ),
    ]
    (DOCS / "predict-live.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Measure if no run is given, judge, print, write."""
    parser = argparse.ArgumentParser(description="Predictions on this machine against measurements.")
    parser.add_argument("run", nargs="?", type=Path)
    parser.add_argument("--device")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--truth", type=Path)
    options = parser.parse_args()
    run = options.run or cotenant.run(STUDY, device=options.device).folder
    found, rows = judge(run, options.device, options.truth)
    print(json.dumps(found, indent=2))
    if options.write:
        _write(found, rows, _source(run, options.truth))


def _source(run: Path, truth: Path | None) -> str:
    if truth is None:
        return f"run {run.name}"
    return f"the mixes of an earlier run, as they are in the file below, and the solos of run {run.name}"


if __name__ == "__main__":
    main()
