"""How far simulated times of engines are from measured ones (docs/validation-llm.md)."""

from cotenant.prediction.gpu import Architecture
from cotenant.prediction.trust import ModelError

_LOW, _HIGH = 0.848, 1.214
"""Range of nine in ten steps, times between tokens and generations of eleven models, which count the same, widened by
1.3 for what a new model adds."""
_MEAN, _ROWS, _MODELS = 0.0745, 7115, 11
_MEASURED: tuple[Architecture, ...] = ("ampere", "hopper", "blackwell")
_SOURCE = "vLLM on A100s, H100s and a B200"
_FARTHER = 2.0
"""Constants of another generation of GPUs are at least twice as far off."""


def engine_error(architecture: Architecture) -> ModelError:
    """The error of an engine's times alone on a GPU of this architecture."""
    if architecture not in _MEASURED:
        return ModelError(_LOW**_FARTHER, _HIGH**_FARTHER, _MEAN * _FARTHER, 0, "", like=len(_MEASURED))
    return ModelError(_LOW, _HIGH, _MEAN, _ROWS, _SOURCE, groups=_MODELS)
