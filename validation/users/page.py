"""The page: every class with its error, its interval, and the best simple law."""

import math
from collections.abc import Sequence

from cotenant.tenancy.sharing import ALONE
from validation.users.classes import Judged
from validation.users.decisions import Decision, lines
from validation.users.row import UserRow
from validation.users.targets import targets

HEAD = """# Accuracy of the simulation

Every number on this page compares a study on a `sim:` device, run by the same functions as `cotenant run`, with a
public measurement. Written by `make validate DATA=DIR`; nothing in the tables is edited by hand.

A *class* is the GPU's family, the tenant's software and phase, the way the GPU is shared, and whether measured solo
times were given (`solo_ms`, see `cotenant calibrate`). A simulated number is printed with the interval of its class,
which contained nine in ten measured values. Without a comparison, numbers are marked "not validated" and carry the
range of nine in ten groups of the classes most like it (the same way to share, then phase, software, family), in `run`
and in `plan` alike; tails, the range of the mean widened by as much as tails are wider where both were compared.

- *error*: mean of |simulated / measured - 1|; *held out*: over rows of models, mixes or GPUs that no constant was
  fitted with.
- *interval*: wide enough to cover the rows of left-out groups when built from the others. With fewer than 30 rows from
  fewer than nine groups, a class can't tell how far off the next model is: its interval contains all its rows, and nine
  in ten groups of it and of like classes (other phases of the same software under the same way to share, and other
  families of GPUs where those don't cover its groups; their number in brackets), each group counting the same.
- *times beside others*: errors of a time alone and of a slowdown partly cancel, so these are judged themselves too. A
  class with at least five groups uses that interval; another one, those of the time alone and the slowdown together.
- *covered*: share of rows within the interval made of all **other** groups (models, mixes, GPUs); the group with
  the lowest coverage is named. A class of one group is covered by its own interval, which says little.
- *simple law*: the closest of a constant, a line in the number of copies or parts, and launches plus roofline. Its
  constants are fitted to the other groups of the same software, phase and way to share, on any GPU, so that it is
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
validated at all: attention over contexts of more than 512 tokens, growth of the cache within a request,
co-location under a power cap, contention for the host's CPU and data loading, green contexts, streams, tensor
parallelism, GPUs of the families Kepler, Pascal, Ada and Hopper.
"""

SOURCES = """## Sources

huggingface/pytorch-image-models (Apache-2.0), NVIDIA/DeepLearningExamples (Apache-2.0, BSD-3), MunQ-Lee/ParvaGPU_SC24
(MIT), nebuly-ai/nos (Apache-2.0), stanford-futuredata/gavel (MIT); figures only, from projects without a licence:
hao-ai-lab/MuxServe, tally-project/tally-bench, Ak33ra/15-418-final-project. Single laws (power, fleets, memory,
sensors, kernels) are compared in [validation-parts.md](validation-parts.md).
"""


def markdown(judged: Sequence[Judged], rows: Sequence[UserRow], decided: Sequence[Decision] = ()) -> str:
    """The page."""
    parts = [HEAD, *targets(judged, rows), ""]
    for title, quantity, alone in (
        ("Times alone", "time", True),
        ("Slowdown by sharing", "slowdown", False),
        ("Tails (p90, p95, p99) by sharing, relative to alone", "tail", False),
        ("Times beside others", "time", False),
        ("Tails (p90, p95, p99) beside others", "tail_time", False),
    ):
        parts += [f"## {title}", "", _HEADS, _RULE]
        parts += [_line(one) for one in judged if one.quantity == quantity and (one.kind.sharing == ALONE) == alone]
        parts.append("")
    parts += lines(decided) if decided else []
    parts += ["## By data set", "", "| data set | rows | error, % | held out, % |", "|---|---:|---:|---:|"]
    parts += _by_data_set(rows)
    return "\n".join([*parts, "", FITTED, SOURCES])


_HEADS = "| class | rows | error, % | held out, % | interval | covered, % | simple law, % | data |"
_RULE = "|---|---:|---:|---:|---|---|---|---|"


def _line(one: Judged) -> str:
    worst, share = one.worst_group
    law = one.law if math.isnan(one.law_error) else f"{one.law_error * 100:.1f} ({one.law})"
    return (
        f"| {one.kind} | {one.error.n} | {one.error.mean_error * 100:.1f} | {_percent(one.held_out_error)} "
        f"| x{one.error.low:.2f} to x{one.error.high:.2f}{f' ({one.error.like})' if one.error.like else ''} "
        f"| {one.coverage * 100:.0f} ({worst}: {share * 100:.0f}) "
        f"| {f'**{law}**' if one.law_is_better else law} | {one.error.data_set} |"
    )


def _percent(share: float) -> str:
    return "none" if math.isnan(share) else f"{share * 100:.1f}"


def _by_data_set(rows: Sequence[UserRow]) -> list[str]:
    def kind(row: UserRow) -> tuple[str, str, bool]:
        beside = " beside others" if row.quantity in ("time", "tail_time") and row.kind.sharing != ALONE else ""
        return row.data_set, row.quantity.replace("_", " ") + beside, row.kind.calibrated

    lines = []
    for name, quantity, calibrated in sorted({kind(row) for row in rows}):
        mine = [row for row in rows if kind(row) == (name, quantity, calibrated)]
        every = [abs(row.simulated / row.measured - 1) for row in mine]
        held = [abs(row.simulated / row.measured - 1) for row in mine if not row.fitted]
        given = ", solos given" if calibrated else ""
        mean = sum(every) / len(every) * 100
        held_out = f"{sum(held) / len(held) * 100:.1f}" if held else "none"
        lines.append(f"| {name}: {quantity}{given} | {len(mine)} | {mean:.1f} | {held_out} |")
    return lines
