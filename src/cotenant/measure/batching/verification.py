"""The largest batch that actually runs: a bracket around the prediction, then bisection, each in a new process."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cotenant.devices.protocol import Device
from cotenant.errors import TenantFailed
from cotenant.measure.fit import says_out_of_memory
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.ways import ALONE
from cotenant.workloads.protocol import WorkloadSpec

# --- the outcome of an attempt at a batch, and the errors that mean it was too large

Kind = Literal["ran", "out of memory", "library limit", "32-bit index", "failed"]
TOO_LARGE: tuple[Kind, ...] = ("out of memory", "library limit", "32-bit index")
"""These end a search; `failed` has another cause and says nothing about the batch."""

_LIBRARY_LIMIT = (
    "cudnn_status_not_supported",
    "cublas_status_not_supported",
    "cublas_status_alloc_failed",
    "invalid configuration argument",
)
_INDEX_LIMIT = ("canuse32bitindexmath", "32-bit index", "int32 index", "integer out of range", "2147483647")
_NO_PRIMITIVE = ("could not create a primitive", "could not create a memory", "could not execute a primitive")
"""oneDNN's errors when it gets no memory for its workspace, which under a memory limit can mean nothing else."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One batch, tried in a separate process."""

    batch: int
    kind: Kind
    said: str = ""
    """The error message."""
    peak_bytes: int | None = None
    """Peak memory of the model, its inputs and activations; None if it didn't get that far."""
    seconds: float | None = None
    """Seconds of a request, after the first."""

    @property
    def too_large(self) -> bool:
        """True if a smaller batch may run."""
        return self.kind in TOO_LARGE


def classify(said: str, *, limited: bool) -> Kind:
    """Classify an error message; ``limited`` if we set the process a memory limit."""
    text = said.lower()
    if any(words in text for words in _INDEX_LIMIT):
        return "32-bit index"
    if any(words in text for words in _LIBRARY_LIMIT):
        return "library limit"
    if says_out_of_memory(text) or (limited and any(words in text for words in _NO_PRIMITIVE)):
        return "out of memory"
    return "failed"


log = logging.getLogger(__name__)

FIRST = 0.9
"""The first attempt, as a share of the prediction: it usually runs, and the limit is near."""
GROWTH = 1.15
FINENESS = 1 / 50
"""The search ends when the largest that ran and the smallest that didn't differ by this share of the prediction."""
ATTEMPT_TIMEOUT_S = 900.0
_ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
"""Freed memory returns to the system at once, so that a peak is the sum of what was live together."""


@dataclass(frozen=True, slots=True)
class VerifiedBatch:
    """The result of the attempts."""

    largest: int
    """The largest batch that ran; 0 if none did."""
    smallest_too_large: int | None
    """None if every attempt up to the upper bound ran."""
    reason: str | None
    """Why the smallest was too large."""
    attempts: tuple[Attempt, ...]


def verify(predicted: int, attempt: Callable[[int], Attempt], *, highest: int | None = None) -> VerifiedBatch:
    """Search around a prediction.

    Args:
        predicted: The starting point; may be wrong by any factor.
        attempt: Tries a batch size.
        highest: Upper bound, e.g. the number of items.

    Raises:
        TenantFailed: An attempt failed for a reason other than its size.
    """
    step = max(1, int(predicted * FINENESS))
    attempts: list[Attempt] = []
    low, high, why = 0, None, None
    batch = max(1, int(predicted * FIRST))
    while True:
        batch = batch if highest is None else min(batch, highest)
        tried = attempt(batch)
        log.info("batch %d: %s", batch, tried.kind)
        attempts.append(tried)
        if tried.kind == "failed":
            raise TenantFailed(
                f"a batch of {batch} failed, but not because of its size: {tried.said}",
                hint="run it alone first: `cotenant run` with one tenant shows its log",
            )
        if tried.too_large:
            high, why = batch, f"{tried.kind}: {tried.said}"
        else:
            low = batch
        if (highest is not None and low >= highest) or (high is not None and high - low <= (step if low else 1)):
            return VerifiedBatch(low, high, why, tuple(attempts))
        batch = max(low + 1, int(low * GROWTH)) if high is None else (low + high) // 2


def attempt_on(device: Device, spec: WorkloadSpec, memory_bytes: int | None) -> Callable[[int], Attempt]:
    """Attempts on a device, each in a new process with the device to itself."""
    tenant = Tenant(name=spec.name, of=spec.name, workload=spec, load=Load(kind="closed"))
    [host] = device.arrange(Sharing(mode=ALONE), [tenant]).hosts
    options = dict(host.seats[0].options)

    def attempt(batch: int) -> Attempt:
        order = {
            "device": device.name,
            "workload": spec.model_copy(update={"batch": batch}).model_dump(mode="json"),
            "options": options,
            "memory_bytes": memory_bytes,
        }
        try:
            done = subprocess.run(
                [sys.executable, "-m", "cotenant.measure.batching.probe"],
                input=json.dumps(order),
                capture_output=True,
                text=True,
                check=False,
                timeout=ATTEMPT_TIMEOUT_S,
                env={**os.environ, **_ENVIRONMENT},
            )
        except subprocess.TimeoutExpired:
            return Attempt(batch, "failed", f"it did not finish within {ATTEMPT_TIMEOUT_S:g} s")
        return _read(batch, done, limited=memory_bytes is not None)

    return attempt


def _read(batch: int, done: "subprocess.CompletedProcess[str]", *, limited: bool) -> Attempt:
    if done.returncode == -signal.SIGKILL:
        return Attempt(batch, "out of memory", "the kernel killed it, as it does when memory runs out")
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        message = (done.stderr.strip().splitlines() or ["no error message"])[-1]
        return Attempt(batch, classify(message, limited=limited), f"it exited with code {done.returncode}: {message}")
    answer = json.loads(lines[-1])
    return Attempt(batch, answer["kind"], answer.get("said", ""), answer.get("peak_bytes"), answer.get("seconds"))
