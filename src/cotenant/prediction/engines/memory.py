"""Memory of an engine: weights, activations of one step, and the cache in what is left."""

from cotenant.errors import DoesNotFit
from cotenant.prediction.engines.model import LanguageModel
from cotenant.prediction.engines.profile import EngineProfile
from cotenant.prediction.engines.step import EnginePart
from cotenant.prediction.kernels.layers import HALF_BYTES

_GIB = 2**30


def weight_bytes(model: LanguageModel, part: EnginePart) -> float:
    """Weights on one GPU; embeddings and the language head keep half precision."""
    return (model.layer_weights * part.weight_bytes + model.table_weights * HALF_BYTES) / part.gpus


def activation_bytes(model: LanguageModel, part: EnginePart, most_tokens: int) -> float:
    """Activations of one step, whatever the contexts: a layer's input, its widest product and that one's result."""
    products = (*model.before, *model.after, *model.mlp, *model.dense_mlp)
    widest = max((product.outer + product.inner for product in products), default=model.width)
    assigned = model.mixture.active * (model.mixture.inner * 3 + model.width) if model.mixture else 0
    return most_tokens * HALF_BYTES * (2 * model.width + max(widest, assigned) / part.gpus)


def token_bytes(model: LanguageModel, part: EnginePart) -> float:
    """Keys and values of one token on one GPU."""
    shared = max(1.0, model.heads.cached / part.gpus) / model.heads.cached
    return model.cached_bytes * shared * part.cached_bytes / HALF_BYTES


def engine_bytes(model: LanguageModel, part: EnginePart, profile: EngineProfile, *, most_tokens: int) -> float:
    """Everything besides the cache."""
    return weight_bytes(model, part) + activation_bytes(model, part, most_tokens) + profile.reserved_gib * _GIB


def cache_blocks(
    model: LanguageModel,
    part: EnginePart,
    profile: EngineProfile,
    *,
    most_tokens: int,
    memory_bytes: float | None = None,
) -> int:
    """Blocks of the cache in the engine's share of the memory.

    Args:
        model: The model.
        part: The part of the GPU.
        profile: The engine.
        most_tokens: Tokens of a step.
        memory_bytes: Memory that the engine may use; None: its usual share of the GPU's.

    Raises:
        DoesNotFit: No block is left.
    """
    given = part.gpu.memory_bytes * profile.memory_share if memory_bytes is None else memory_bytes
    needed = engine_bytes(model, part, profile, most_tokens=most_tokens)
    blocks = int((given - needed) // (token_bytes(model, part) * profile.block_tokens))
    if blocks < 1:
        raise DoesNotFit(
            f"{profile.name} needs {needed / _GIB:.1f} GiB besides its cache, and has {given / _GIB:.1f} GiB",
            hint="quantise the weights, split the model over more GPUs, or use a GPU with more memory",
        )
    return blocks
