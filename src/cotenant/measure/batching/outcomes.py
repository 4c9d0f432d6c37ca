"""The outcome of one attempt at a batch, and the errors that mean it was too large."""

from dataclasses import dataclass
from typing import Literal

from cotenant.measure.tenants.out_of_memory import says_out_of_memory

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
    """Seconds of one request, after a first one."""

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
