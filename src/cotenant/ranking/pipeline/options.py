"""Options of the search pipeline, checked without torch."""

from typing import Literal

from pydantic import Field

from cotenant.errors import CotenantError, WorkloadError
from cotenant.ranking.candidates import find_candidate
from cotenant.ranking.data import check_data
from cotenant.ranking.scorers import find_scorer
from cotenant.workloads.models import ModelEntry, block_count, kept
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.spec_options import Options, read_options, refuse_unused

MODES = ("synchronised", "pipelined")
HEAD = "head"
"""Joined at the head: the trunk is the whole model, and each head one fully connected layer."""


class SearchOptions(Options):
    """`params` of the search pipeline."""

    candidate: str
    """A vision or encoder model of the catalogue, or a directory with weights."""
    data: str | None = None
    """As in `cotenant search --data`; None for embedded images or texts."""
    batches: int = Field(default=50, ge=2, le=10_000)
    """Batches per request, the first one included."""
    classes: int | None = Field(default=None, ge=2, le=100_000)
    """Classes to score; None for the data's own."""
    scorer: str = "linear"
    start: Literal["warm", "cold"] = "warm"
    """cold: drop weights and data files from the page cache before each request."""
    workers: int = Field(default=1, ge=1, le=256)
    """Threads that load batches ahead, in mode pipelined."""
    heads: int = Field(default=1, ge=1, le=1000)
    """Models that share a trunk."""
    joined: str | None = None
    """Where their own part starts: last 50%, last 3, or head (one fully connected layer)."""


def checked(spec: WorkloadSpec) -> tuple[ModelEntry, SearchOptions]:
    """The candidate and the options of a spec. Raises WorkloadError for the first thing that can't run."""
    refuse_unused(spec, used=("seq", "dtype", "mode", "layers"))
    options = read_options(spec, SearchOptions)
    entry = find_candidate(options.candidate)
    if spec.mode not in (None, *MODES):
        raise WorkloadError(f"{spec.name} has no mode {spec.mode!r}; it has {', '.join(MODES)}")
    if options.workers > 1 and spec.mode != "pipelined":
        raise WorkloadError(
            f"{spec.name}: `workers` load ahead, which mode synchronised does not", hint="set `mode: pipelined`"
        )
    if spec.dtype == "int8":
        raise WorkloadError(f"{options.candidate} does not run in int8", hint="use float32, bfloat16 or float16")
    if spec.seq is not None and entry.max_seq is None:
        raise WorkloadError(f"{options.candidate} takes no sequence, so `seq` does not apply", hint="leave `seq` out")
    if spec.seq is not None and entry.max_seq is not None and spec.seq > entry.max_seq:
        raise WorkloadError(f"{options.candidate} takes at most {entry.max_seq} tokens, not {spec.seq}")
    _check_parts(entry, spec, options)
    _check_scorer_and_data(options)
    return entry, options


def _check_parts(entry: ModelEntry, spec: WorkloadSpec, options: SearchOptions) -> None:
    for layers in (spec.layers, options.joined):
        if layers in (None, "full", HEAD):
            continue
        blocks = block_count(entry)
        if blocks is None:
            raise WorkloadError(f"{entry.name} has no chain of blocks, so it can't be sliced", hint="leave it whole")
        if kept(str(layers), blocks) == blocks:
            raise WorkloadError(f"{entry.name} has {blocks} blocks, so {layers!r} leaves nothing out")
    if options.heads > 1 and options.joined is None:
        raise WorkloadError(
            f"{spec.name}: {options.heads} heads need `joined`, which says where they start",
            hint="write `joined: last 50%`, `joined: last 3` or `joined: head`",
        )
    if options.joined is not None and spec.layers != "full":
        raise WorkloadError(f"{spec.name}: a slice has no trunk to share", hint="leave out `layers` or `joined`")


def _check_scorer_and_data(options: SearchOptions) -> None:
    try:
        scorer = find_scorer(options.scorer)
        if options.data is not None:
            check_data(options.data)
    except CotenantError as error:
        raise WorkloadError(error.message, hint=error.hint) from error
    if getattr(scorer, "takes", "features") != "features":
        raise WorkloadError(
            f"{options.scorer} scores the logits of a model's own head, but the pipeline extracts features",
            hint="use linear, knn, logme, hscore or transrate",
        )
