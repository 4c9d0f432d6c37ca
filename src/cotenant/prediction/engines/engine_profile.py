"""Engines by version: defaults of their settings, and the time of their hosts.

Host times and the scale of attention were fitted on steps and loads of running engines; docs/validation-llm.md names
them and has the errors with each model left out. Host time is added to the device's: hiding it behind the device, as
asynchronous scheduling promises, fits none of the public data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """A version of an engine."""

    name: str
    version: str
    step_us: float
    """Host time of a step: scheduling, preparing inputs, sampling."""
    sequence_us: float
    """The same per sequence of the step: bookkeeping, detokenising."""
    prompt_us: float
    """Added to a step with prompts, which replays graphs piece by piece."""
    attention: float
    """Time of attention relative to tables of kernels: lengths differ, and the context isn't in L2."""
    request_us: float = 0.0
    """Host time of a request before the engine sees it: HTTP, tokenising."""
    token_us: float = 0.0
    """Host time per token of a prompt, added to the step that computes it."""
    device: float = 1.0
    """Time of kernels relative to their laws; 1 unless calibrated."""
    hidden: float = 0.0
    """Share of the host time of a step that overlaps with the device: 0, one after the other; 1, the longer counts."""
    eager_us: float = 12.0
    """Host time per kernel without captured graphs, which hides the device's if it is longer."""
    graph_tokens: int = 512
    """Tokens up to which a step replays graphs, padded to one of the captured sizes."""
    block_tokens: int = 16
    memory_share: float = 0.9
    """Share of the device's memory that it takes."""
    reserved_gib: float = 1.5
    """Memory besides weights, activations and cache: graphs, workspaces."""

    def host_slowed(self, factor: float) -> "EngineProfile":
        """The same engine on a host that takes longer by a factor."""
        names = ("step_us", "sequence_us", "prompt_us", "request_us", "token_us", "eager_us")
        return replace(self, **{name: getattr(self, name) * factor for name in names})

    def limits(self, gpu: str, memory_gib: float) -> tuple[int, int]:
        """Sequences and tokens of a step by default, which depend on the GPU's memory, except on an A100."""
        large = memory_gib >= _LARGE_GIB and "a100" not in gpu.lower()
        return (1024, 8192) if large else (256, 2048)


_LARGE_GIB = 70.0

ENGINES: Mapping[str, EngineProfile] = {
    "vllm": EngineProfile("vllm", "0.20", step_us=700.0, sequence_us=50.0, prompt_us=1500.0, attention=1.2),
}
