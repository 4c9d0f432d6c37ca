"""The way to share that the product recommends beside trainings, against the best of those measured."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cotenant
from cotenant.study.model import Study
from validation.reading import positive, read_table
from validation.users.sharing import TAILS_FILE, TRAINED

LIMIT_MS = 12.0
_ALONE = "bert_mean_ms_alone"
_WAYS = ("processes", "mps")
CANT_TELL, APART = "can't tell", "apart"


@dataclass(frozen=True, slots=True)
class Decision:
    """A question about BERT beside a training."""

    job: str
    question: str
    calibrated: bool
    best: str
    """The way that is best by the measurements."""
    recommended: str
    """The way that a simulated run recommends, or not to share."""

    @property
    def outcome(self) -> str:
        """right, wrong, or that the run leaves it open or advises against sharing."""
        if self.recommended in (CANT_TELL, APART):
            return self.recommended
        return "right" if self.recommended == self.best else "wrong"


def decisions(data: Path) -> Iterator[Decision]:
    """Both questions for each training, without and with BERT's measured time alone."""
    columns = ("training_job", "sharing", _ALONE, "bert_mean_ms", "bert_p99_ms", "training_speed_vs_alone")
    rows = read_table(data, TAILS_FILE, columns)
    by_job: dict[str, dict[str, Mapping[str, str]]] = {}
    for row in rows:
        by_job.setdefault(row["training_job"], {})[row["sharing"]] = row
    for job, ways in by_job.items():
        if job not in TRAINED:
            continue
        work = {way: _work(ways[way]) for way in _WAYS}
        kept = [way for way in _WAYS if float(ways[way]["bert_p99_ms"]) <= LIMIT_MS]
        for calibrated in (False, True):
            given = positive(ways["mps"][_ALONE], TAILS_FILE, _ALONE) if calibrated else None
            most = max(_WAYS, key=lambda way: work[way])
            yield Decision(job, "most work", calibrated, most, _recommended(job, given, limited=False))
            within = max(kept, key=lambda way: work[way])
            question = f"p99 within {LIMIT_MS:g} ms"
            yield Decision(job, question, calibrated, within, _recommended(job, given, limited=True))


def lines(decisions: Sequence[Decision]) -> list[str]:
    """Lines of the page."""
    out = [
        "## Way to share beside training",
        "",
        "BERT (ONNX Runtime, one request at a time) beside a training on an A100, by turns or MPS: what a simulated",
        f"run recommends for the most work, and for a p99 of at most {LIMIT_MS:g} ms, against the better one of those",
        "measured. *Apart*: it advises against sharing. *Can't tell*: ranges overlap.",
        "",
        "| question | BERT's time alone | right | can't tell | apart | wrong |",
        "|---|---|---:|---:|---:|---|",
    ]
    for question, calibrated in dict.fromkeys((decision.question, decision.calibrated) for decision in decisions):
        mine = [
            decision for decision in decisions if (decision.question, decision.calibrated) == (question, calibrated)
        ]
        wrong = [f"{decision.job}: {decision.recommended}" for decision in mine if decision.outcome == "wrong"]
        right, open_, apart = (
            sum(decision.outcome == outcome for decision in mine) for outcome in ("right", CANT_TELL, APART)
        )
        given = "measured" if calibrated else "simulated"
        counts = f"{right} of {len(mine)} | {open_} | {apart}"
        out.append(f"| {question} | {given} | {counts} | {'; '.join(wrong) or 'none'} |")
    return [*out, ""]


def _work(row: Mapping[str, str]) -> float:
    """Progress of both, relative to alone."""
    bert = positive(row[_ALONE], TAILS_FILE, _ALONE) / positive(row["bert_mean_ms"], TAILS_FILE, "bert_mean_ms")
    return bert + positive(row["training_speed_vs_alone"], TAILS_FILE, "training_speed_vs_alone")


def _recommended(job: str, alone_ms: float | None, *, limited: bool) -> str:
    bert: dict[str, Any] = {
        "workload": "bert-large",
        "seq": 128,
        "dtype": "float16",
        "software": "onnxruntime",
        **({"slo": {"p99": f"{LIMIT_MS:g}ms"}} if limited else {}),
    }
    solo = [{"workload": "bert-large", "ms": alone_ms, "software": "onnxruntime"}]
    study: dict[str, Any] = {
        "name": "beside-training",
        "device": "sim:a100-sxm4-40gb",
        "tenants": {"bert": bert, "training": TRAINED[job]},
        "mixes": [{"groups": {"mix": ["bert", "training"]}}],
        "sharing": list(_WAYS),
        "window": "15s",  # the slowest training takes a second per step, and a trial needs ten
        "blocks": 3,
        "settings": [{} if alone_ms is None else {"solo_ms": solo}],
    }
    with tempfile.TemporaryDirectory() as folder:
        main = cotenant.run(Study(**study), out=folder).answer.main
    if main is None or main.verdict == "open":
        return CANT_TELL
    return main.best.cell.sharing if main.verdict == "share" else APART
