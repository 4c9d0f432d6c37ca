"""The page: every class with its error, its interval, and the best simple law."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from statistics import median

from cotenant.prediction.trust import MEASURE_IT, Validated
from cotenant.tenancy.ways import ALONE
from validation.users.classes import Judged, Judgement
from validation.users.decisions import Decision, lines
from validation.users.ranges import LeftOut
from validation.users.row import UserRow
from validation.users.targets import targets

HEAD = """# Accuracy of the simulation

Every number on this page compares a study on a `sim:` device, run by the same functions as `cotenant run`, with a
public measurement. Written by `make validate DATA=DIR`; nothing in the tables is edited by hand.

A *data set* is a model on a GPU, as one version of one source measured it: batches, copies and lengths of one model
repeat the same error. A *class* is the GPU's family, the tenant's software and phase, what is special about its
execution (several GPUs, experts, quantised weights), the way the GPU is shared, and whether measured solo times were
given (`solo_ms`, see `cotenant calibrate`). A class with two data sets or more is *validated*. Another one *borrows*:
its range is that of data sets with which it has something in common, and is wider by a step for each property that none
of them shares, learnt from how errors differ between data sets; software whose constants nobody fitted has the largest.
Beyond x0.4 to x2.5, the answer is "measure it". Tails add what they added to the error of their means.

- *error*: mean of |simulated / measured - 1|; *held out*: over rows that no constant was fitted with.
- *range*: what is printed with a simulated number, measured over simulated. It is made for a new source: nobody's GPU,
  version and model is one of those below. Its width is chosen so that ranges hold 92 % of the rows of data sets left
  out and of sources left out: more than the promised nine in ten, since constants were chosen with these data in view.
- *covered*: share of rows within the range made without their data set.
- *simple law*: the closest of a constant, a line in the number of copies or parts, and launches plus roofline. Its
  constants are fitted to the other data sets of the same software, phase and way to share, on any GPU, so that it is
  judged by rows it has not seen, as the simulation is. **Bold**: the law is closer than the simulation.
"""

FITTED = """## What was fitted, on what

| constant | fitted on |
|---|---|
| tiles, splits, overlap of products | Llama-2-7B's layers, A100 (microsoft/vidur) |
| convolutions, depthwise | ResNet-50, ViT-B/16, MobileNetV2, EfficientNet-B0 (timm) |
| weight gradients' share | ResNets and VGGs trained on an RTX 3090 (timm) |
| bandwidth that an SM draws (25 GB/s), share of norms | Llama-2-7B's layers, A100 (microsoft/vidur); the four of timm |
| L2 that holds the last results (0.05 of it) | seen in ParvaGPU's slices and NVIDIA's tables |
| reordering for TF32, its power, plain depthwise | ResNet-50, VGG-16, MobileNetV2 on MIG slices (ParvaGPU) |
| products of a few rows | not fitted: what an SM fetches from L2 |
| context that one thread block reads (7 GB/s) | Llama-7B at a batch of 1 (MuxServe) |
| clock that an A100 holds under tensor-core load | prefills of Llama-7B on all SMs (MuxServe) |
| clocks of the A30 and the A100 PCIe | none of their rows: W per TFLOP/s, as the A100-SXM4 and the T4 have it |
| clocks of Hopper, speed of newer hosts, Kepler's share | estimates, no rows |
| how the clock rises on a share of the SMs | a cube root, not fitted; seen in MuxServe's prefills |
| SMs that could draw all of the DRAM bandwidth | decoding of Llama-7B by share of SMs (MuxServe) |
| eager launches by kind; old hosts' factor | ParvaGPU's plateaus, three language models, ResNet-50 on V100s |
| onnxruntime, tensorrt | BERT on V100s and A100s (NVIDIA), BERT alone (Tally) |
| vllm | Llama-7B, batches of 1 and 64 (MuxServe) |
| turns: cost of interrupting and of yielding | three pods of YOLOS-small (nos), ten DistilGPT2 |
| that an input's copy takes a turn of its own | seen in the mix of all five language models |
| thread blocks of a batch norm in training: one per channel | not fitted: how libraries launch it |
| what a newcomer waits for thread blocks: half of one | not fitted; chosen with all of Tally's rows in view |
| SMs by number of thread blocks, fewer while they wait for DRAM | not fitted; chosen with Tally and Gavel in view |
| copies from memory that isn't pinned (12 GB/s) | gain of ResNet-50's and MobileNetV2's copies under MPS (ParvaGPU) |
| priors of calibration | ResNet-50, VGG-16, DenseNet-121, MobileNetV2 (ParvaGPU) |

Forms of laws were chosen with complete data sets in view, so held-out errors are lower than on unseen data. Not
validated at all: co-location under a power cap, contention for the host's CPU and data loading, green contexts,
streams, quantised weights, experts outside of kernels, GPUs of the families Kepler and Ada.
"""

SOURCES = """## Sources

huggingface/pytorch-image-models (Apache-2.0), NVIDIA/DeepLearningExamples (Apache-2.0, BSD-3), MunQ-Lee/ParvaGPU_SC24
(MIT), nebuly-ai/nos (Apache-2.0), stanford-futuredata/gavel (MIT), argonne-lcf/LLM-Inference-Bench (BSD-3-Clause),
ai-dynamo/aiconfigurator (Apache-2.0); figures only, from projects without a licence: ML.ENERGY leaderboard,
hao-ai-lab/MuxServe, tally-project/tally-bench, Ak33ra/15-418-final-project. Single laws (power, fleets, memory,
sensors, kernels) are compared in [validation-parts.md](validation-parts.md).
"""


def markdown(
    judgement: Judgement,
    rows: Sequence[UserRow],
    decided: Sequence[Decision] = (),
    before: Mapping[tuple[str, str], float] | None = None,
) -> str:
    """The page.

    Args:
        judgement: Classes, and rows under ranges made without them.
        rows: All rows.
        decided: Ways to share that simulated runs recommend.
        before: By class and quantity, half-widths of the ranges that shipped earlier.
    """
    parts = [HEAD, *_held(judgement), "", *targets(rows), ""]
    for title, quantity in (
        ("Times alone", "time"),
        ("Slowdown by sharing", "slowdown"),
        ("Tails (p90, p95, p99) by sharing, relative to alone", "tail"),
    ):
        parts += [f"## {title}", "", _HEADS, _RULE]
        parts += [_line(judged, before or {}) for judged in judgement.judged if judged.quantity == quantity]
        parts.append("")
    parts += lines(decided) if decided else []
    parts += ["## By data set", "", *_covered_by_data_set(judgement.without_set), ""]
    parts += ["## By file", "", "| file | rows | error, % | held out, % |", "|---|---:|---:|---:|"]
    parts += _by_file(rows)
    return "\n".join([*parts, "", *_steps(judgement.validated), "", FITTED, SOURCES])


_HEADS = (
    "| class | rows | data sets | error, % | held out, % | range | half-width, before | covered, % | simple law, % "
    "| sources |"
)
_RULE = "|---|---:|---:|---:|---:|---|---|---:|---|---|"
_MANY = 20
"""Data sets with this many rows have a line of their own."""


def _line(judged: Judged, before: Mapping[tuple[str, str], float]) -> str:
    law = judged.law if math.isnan(judged.law_error) else f"{judged.law_error * 100:.1f} ({judged.law})"
    low, high = (judged.low, judged.high) if judged.high / judged.low <= MEASURE_IT[1] / MEASURE_IT[0] else MEASURE_IT
    old = before.get((str(judged.kind), judged.quantity))
    return (
        f"| {judged.kind} | {len(judged.rows)} | {judged.data_sets}{'' if judged.validated else ', borrows'} "
        f"| {judged.mean_error * 100:.1f} | {_percent(judged.held_out_error)} | x{low:.2f} to x{high:.2f} "
        f"| {(high - low) / 2:.2f}, {'none' if old is None else f'{old:.2f}'} "
        f"| {'not judged' if math.isnan(judged.coverage) else f'{judged.coverage * 100:.0f}'} "
        f"| {f'**{law}**' if judged.law_is_better else law} | {', '.join(judged.sources)} |"
    )


def _held(judgement: Judgement) -> list[str]:
    """What ranges hold of data sets and sources left out."""
    out = [
        "## Ranges on data left out",
        "",
        "Each row under the range made without its data set, and without its source: steps and widths, too, are learnt",
        "anew without what is left out, which chooses nothing. Times beside others have the range of the time alone,",
        "unless it was given, and of the slowdown together. *Half-width*: median of ranges without the data set; then",
        "in mean errors. *Measure it*: rows whose range would exceed x0.4 to x2.5.",
        "",
        "| | rows | held without data set, % | held without source, % | half-width | in errors | measure it, % |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    whats = ("times alone", "slowdowns", "times beside others", "all")
    for validated, what in product((True, False), whats):
        mine, theirs = (
            [case for case in cases if case.validated == validated and what in ("all", _what(case))]
            for cases in (judgement.without_set, judgement.without_source)
        )
        if not mine:
            continue
        error = sum(abs(case.row.simulated / case.row.measured - 1) for case in mine) / len(mine)
        half = median(case.half_width for case in mine)
        wide = sum(case.high - case.low > math.log(MEASURE_IT[1] / MEASURE_IT[0]) for case in mine) / len(mine)
        out.append(
            f"| {'validated' if validated else 'borrowed'}, {what} | {len(mine)} | {_held_share(mine)} "
            f"| {_held_share(theirs)} | {half:.2f} | {half / error:.1f} | {wide * 100:.0f} |"
        )
    return out


def _what(case: LeftOut) -> str:
    if case.row.quantity == "slowdown":
        return "slowdowns"
    return "times alone" if case.row.kind.sharing == ALONE else "times beside others"


def _held_share(cases: Sequence[LeftOut]) -> str:
    return f"{sum(case.inside for case in cases) / len(cases) * 100:.1f}" if cases else "none"


def _covered_by_data_set(cases: Sequence[LeftOut]) -> list[str]:
    """Data sets with many rows, the worst first, and the others together."""
    by_set: dict[tuple[str, str, str, bool], list[LeftOut]] = {}
    for case in cases:
        model, gpu, name = case.row.unit
        what = "slowdown" if case.row.quantity == "slowdown" else "time"
        given = ", solos given" if case.row.kind.calibrated else ""
        key = f"{model}, {gpu}, {name}", f"{what}, {case.row.kind.sharing}{given}", case.row.kind.phase, case.validated
        by_set.setdefault(key, []).append(case)
    many = {key: mine for key, mine in by_set.items() if len(mine) >= _MANY}
    few = [case for key, mine in by_set.items() if key not in many for case in mine]
    out = [
        f"Coverage of ranges made without the data set, of data sets with {_MANY} rows or more, the worst first.",
        "",
        "| data set | quantity | phase | class | rows | held, % |",
        "|---|---|---|---|---:|---:|",
    ]
    for (name, what, phase, validated), mine in sorted(many.items(), key=lambda item: _share(item[1])):
        kind = "validated" if validated else "borrows"
        out.append(f"| {name} | {what} | {phase} | {kind} | {len(mine)} | {_held_share(mine)} |")
    if few:
        out.append(f"| {len(by_set) - len(many)} with fewer rows | | | | {len(few)} | {_held_share(few)} |")
    return out


def _share(cases: Sequence[LeftOut]) -> float:
    return sum(case.inside for case in cases) / len(cases)


def _steps(validated: Validated) -> list[str]:
    out = [
        "## How errors grow between data sets",
        "",
        "Standard deviations of the logarithm of measured over simulated: what each property adds if no data set has",
        "it, and the spread of rows within a data set. *Deviations*: half-width of a range, validated and borrowed.",
        "",
        "| | steps | within | deviations |",
        "|---|---|---:|---|",
    ]
    for name, steps in validated.steps.items():
        each = ", ".join(f"{effect} {step:.3f}" for effect, step in steps.effects.items())
        out.append(f"| {name} | {each} | {steps.within:.3f} | {steps.validated:.2f}, {steps.borrowed:.2f} |")
    return out


def _percent(share: float) -> str:
    return "none" if math.isnan(share) else f"{share * 100:.1f}"


def _by_file(rows: Sequence[UserRow]) -> list[str]:
    def kind(row: UserRow) -> tuple[str, str, bool]:
        beside = " beside others" if row.quantity == "time" and row.kind.sharing != ALONE else ""
        return row.data_set, row.quantity + beside, row.kind.calibrated

    out = []
    for name, quantity, calibrated in sorted({kind(row) for row in rows}):
        mine = [row for row in rows if kind(row) == (name, quantity, calibrated)]
        every = [abs(row.simulated / row.measured - 1) for row in mine]
        held = [abs(row.simulated / row.measured - 1) for row in mine if not row.fitted]
        given = ", solos given" if calibrated else ""
        mean = sum(every) / len(every) * 100
        held_out = f"{sum(held) / len(held) * 100:.1f}" if held else "none"
        out.append(f"| {name}: {quantity}{given} | {len(mine)} | {mean:.1f} | {held_out} |")
    return out
