"""`run --active` against the whole study: trials, errors and intervals of predicted pairs. Twenty tenants, simulated.

    python benchmarks/active.py 0.15 0.2       relative half-widths at which a pair counts as known

Prints one JSON document.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import cotenant

STUDY = """name: twenty
device: sim:a100-sxm4-40gb
tenants:
  bert: {workload: bert-base, batch: 8, seq: 128}
  large: {workload: bert-large, batch: 4, seq: 128}
  distilbert: {workload: distilbert, batch: 8, seq: 128}
  roberta: {workload: roberta-base, batch: 16, seq: 64}
  resnet50: {workload: resnet50, batch: 16}
  resnet18: {workload: resnet18, batch: 32}
  mobilenet: {workload: mobilenet-v2, batch: 32}
  efficientnet: {workload: efficientnet-b0, batch: 16}
  vit: {workload: vit-b-16, batch: 8}
  gpt2: {workload: gpt2, batch: 4, seq: 128}
  densenet: {workload: densenet121, batch: 16}
  dlrm: {workload: dlrm, batch: 2048}
  bert32: {workload: bert-base, batch: 32, seq: 128}
  gpt2l: {workload: gpt2-medium, batch: 2, seq: 128}
  resnet101: {workload: resnet101, batch: 8}
  vit32: {workload: vit-b-16, batch: 32}
  mobile1: {workload: mobilenet-v2, batch: 1}
  distil1: {workload: distilbert, batch: 1, seq: 128}
  resnet50b: {workload: resnet50, batch: 64}
  effb: {workload: efficientnet-b0, batch: 64}
mixes: [solo, pairs]
sharing: [mps, processes]
window: 300ms
lead: 50ms
blocks: 3
"""


def trials(runs: list[Path]) -> int:
    """Trials of these runs."""
    counted = "select count(*) from trials where block >= 0"
    return sum(int(str(cotenant.sql(counted, run).rows[0][0])) for run in runs)


def judged(
    study: Path, width: float, full: Path, truth: dict[tuple[str, frozenset[str], str], float]
) -> dict[str, Any]:
    """One width."""
    found = cotenant.run_active(study, width=width, out=study.parent / f"active-{width:g}")
    off, inside, half = [], [], []
    for mix in found.prediction.mixes:
        for one in mix.tenants:
            number = one.narrowable  # the truth is simulated too
            if one.basis.startswith("simulated,") or number.lo is None or number.hi is None:
                continue
            measured = truth[mix.sharing, frozenset(mix.mix), one.tenant]
            off.append(abs(number.est / measured - 1))
            inside.append(number.lo <= measured <= number.hi)
            half.append(number.hi / number.est - 1)
    return {
        "width": width,
        "trials": trials(list(found.folders)),
        "of": trials([full]),
        "measured_mixes": found.measured,
        "mixes": found.mixes,
        "predicted": len(off),
        "error_percent": round(100 * float(np.mean(off)), 1),
        "intervals_hold_percent": round(100 * float(np.mean(inside)), 1),
        "median_half_percent": round(100 * float(np.median(half)), 1),
    }


def main(widths: list[float]) -> None:
    """Measure the whole study once, then actively at each width."""
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "twenty.yaml"
        study.write_text(STUDY, encoding="utf-8")
        full = cotenant.run(study, out=Path(folder) / "full").folder
        truth = {
            (row.cell.sharing, frozenset(row.cell.mix.split("+")), row.of): row.slowdown.est
            for row in cotenant.show(full).tenants
            if not row.cell.solo and isinstance(row.slowdown, cotenant.types.Estimate)
        }
        print(json.dumps([judged(study, width, full, truth) for width in widths], indent=1))


if __name__ == "__main__":
    main([float(one) for one in sys.argv[1:]] or [0.15, 0.2])
