"""A model of the catalogue or a directory that accepts clients' tensors: its call, a sample, its signature."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from cotenant.errors import BadInput, ServingError
from cotenant.scheduling import TenantCosts
from cotenant.serving.tensors import Parcel, Signature, Tensor, TensorSpec
from cotenant.serving.workers.recorded import InSteps
from cotenant.serving.workers.work import Call, Prompt
from cotenant.workloads.models import ModelEntry, Watch, mode_of, stand
from cotenant.workloads.protocol import DEFAULT_TOKENS, WorkloadSpec


@dataclass(frozen=True, slots=True)
class Servable:
    """A module, a typical request, and its signature."""

    model: nn.Module
    sample: Call | Prompt
    signature: Signature
    batches: bool


def build_servable(spec: WorkloadSpec, *, device: str, dtype: str) -> Servable:
    """The model of a spec on its device; on `meta`, only its signature and the size of its sample are meaningful.

    Raises:
        ServingError: It isn't a model, or the spec can't be served.
    """
    entry = _entry(spec)
    torch_dtype: torch.dtype = getattr(torch, spec.dtype or dtype)
    mode = mode_of(entry, spec)
    items = 1 if entry.family == "decoder" and mode == "generate" else spec.batch
    workload = spec.model_copy(update={"batch": items, "weights": spec.weights or entry.folder})
    model, inputs = stand(entry, workload, device=device, dtype=torch_dtype)
    sample = inputs.ring[0]
    if entry.family == "decoder" and mode == "generate":
        length = sample["input_ids"].shape[1]
        ids = (0,) * length if device == "meta" else tuple(sample["input_ids"][0].tolist())
        signature = Signature(
            (TensorSpec("input_ids", "INT64", (1, -1)),),
            (TensorSpec("tokens", "INT64", (1, -1)),),
            decodes=True,
            vocabulary=_vocabulary(entry, model),
            longest=entry.max_seq,
            typical=len(ids),
            cache_bytes=_cache_bytes(model, torch_dtype),
        )
        return Servable(model, Prompt(ids, spec.tokens or DEFAULT_TOKENS), signature, batches=True)
    served = _Served(model, entry, mode, device)
    call = Call(kwargs=dict(sample))
    with torch.inference_mode(), Watch() if device == "meta" else nullcontext():
        result = served(**sample)
    masked = entry.family == "encoder"
    signature = Signature(
        (
            *(_spec(name, value, entry) for name, value in sample.items()),
            *((TensorSpec("attention_mask", "INT64", (-1, -1), optional=True),) if masked else ()),
        ),
        tuple(TensorSpec(name, datatype_of(value.dtype), (-1, *value.shape[1:])) for name, value in result.items()),
        vocabulary=served.vocabulary,
        longest=entry.max_seq,
        embeds=masked and mode == "embed",
        typical=int(sample["input_ids"].shape[1]) if "input_ids" in sample else 1,
    )
    return Servable(served.eval(), call, signature, batches=entry.family != "recommender")


def with_cache(costs: TenantCosts, built: Servable) -> TenantCosts:
    """The costs with the memory that a typical request's cache takes."""
    if not isinstance(built.sample, Prompt):
        return costs
    tokens = len(built.sample.ids) + built.sample.tokens
    return replace(costs, cache_bytes=tokens * built.signature.cache_bytes)


class _Served(nn.Module, InSteps):
    """Maps named host tensors to named host tensors, rejecting unknown ids."""

    def __init__(self, model: nn.Module, entry: ModelEntry, mode: str, device: str) -> None:
        super().__init__()
        self.model = model
        self.vocabulary = _vocabulary(entry, model) if entry.max_seq is not None else None
        self._family = entry.family
        self._mode = mode
        self._device = device
        self._tables: tuple[int, ...] = entry.config["tables"] if entry.family == "recommender" else ()

    def forward(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """One batch."""
        self.check(**inputs)
        return self.home(self.compute(**{name: value.to(self._device) for name, value in inputs.items()}))

    def compute(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """From tensors on the device to tensors on the device."""
        result = self.model(**inputs)
        if self._family == "encoder" and self._mode == "embed":
            return {"embedding": _mean(result.last_hidden_state, inputs.get("attention_mask"))}
        return {"logits": result.logits[:, -1] if self._family == "decoder" else result.logits}

    def home(self, result: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Move a result to the host."""
        return {name: value if value.is_meta else value.cpu() for name, value in result.items()}

    def check(self, **inputs: torch.Tensor) -> None:
        """Raise BadInput for ids that the model doesn't have."""
        if self._device == "meta":
            return
        ids = inputs.get("input_ids")
        if (
            ids is not None
            and self.vocabulary is not None
            and not 0 <= int(ids.min()) <= int(ids.max()) < self.vocabulary
        ):
            raise BadInput(f"Token ids have to lie between 0 and {self.vocabulary - 1}.")
        rows = inputs.get("categories")
        for table, size in enumerate(self._tables if rows is not None else ()):
            if rows is not None and not 0 <= int(rows[table].min()) <= int(rows[table].max()) < size:
                raise BadInput(f"Rows of table {table} have to lie between 0 and {size - 1}.")


def _entry(spec: WorkloadSpec) -> ModelEntry:
    from cotenant import workloads
    from cotenant.workloads.models import ModelWorkload

    workload = workloads.find(spec.name)
    if not isinstance(workload, ModelWorkload):
        raise ServingError(
            f"{spec.name} isn't a model; only models can be served.",
            hint="Use a model of the catalogue (`cotenant workloads`) or a directory with a model.",
        )
    workload.check(spec)
    if spec.train or spec.layers != "full":
        raise ServingError(f"{spec.name}: training steps and slices of models aren't served.", hint="Leave them out.")
    entry = workload.sized(spec)
    if entry.family == "decoder" and mode_of(entry, spec) in ("prefill", "decode"):
        raise ServingError(f"{spec.name} is served in mode generate or forward.", hint="Set `mode: generate`.")
    return entry


def _spec(name: str, value: torch.Tensor, entry: ModelEntry) -> TensorSpec:
    if name == "input_ids":
        return TensorSpec(name, "INT64", (-1, -1))
    if name == "categories":  # [tables, items, lookups]
        return TensorSpec(name, "INT64", (value.shape[0], -1, -1))
    del entry
    return TensorSpec(name, datatype_of(value.dtype), (-1, *value.shape[1:]))


def _vocabulary(entry: ModelEntry, model: nn.Module) -> int:
    config: Any = getattr(model, "config", None)
    return int(getattr(config, "vocab_size", None) or entry.config["vocab_size"])


def _cache_bytes(model: nn.Module, dtype: torch.dtype) -> int:
    """Keys and values of a token in all layers."""
    config: Any = model.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(2 * config.num_hidden_layers * heads * width * dtype.itemsize)


def _mean(hidden: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    if mask is None:
        return hidden.mean(dim=1)
    weights = mask.to(hidden).unsqueeze(-1)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)


# Convert between torch tensors and bytes.

_TYPES = {
    "BOOL": torch.bool, "UINT8": torch.uint8, "INT8": torch.int8, "INT16": torch.int16, "INT32": torch.int32,
    "INT64": torch.int64, "FP16": torch.float16, "BF16": torch.bfloat16, "FP32": torch.float32, "FP64": torch.float64,
}  # fmt: skip
_ARRAYS: dict[str, type[np.generic]] = {
    "BOOL": np.bool_, "UINT8": np.uint8, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "FP16": np.float16, "BF16": np.int16, "FP32": np.float32, "FP64": np.float64,
}  # fmt: skip
_NAMES = {value: name for name, value in _TYPES.items()}


def datatype_of(dtype: torch.dtype) -> str:
    """The Open Inference Protocol's name of a type."""
    return _NAMES[dtype]


def tensors_of(parcel: Parcel) -> dict[str, torch.Tensor]:
    """A parcel's tensors, copied out of it."""
    return {tensor.name: _copied(tensor) for tensor in parcel.tensors}


def _copied(tensor: Tensor) -> torch.Tensor:
    # By way of numpy, which takes type and shape in one step: half the time of torch's own function.
    array: np.ndarray[Any, Any] = np.ndarray(tensor.shape, _ARRAYS[tensor.datatype], bytearray(tensor.data))
    copy = torch.from_numpy(array)
    return copy.view(torch.bfloat16) if tensor.datatype == "BF16" else copy


def parcel_of(tensors: dict[str, torch.Tensor]) -> Parcel:
    """Tensors of the host as a parcel."""
    return Parcel(tuple(_tensor(name, value.contiguous()) for name, value in tensors.items()))


def _tensor(name: str, value: torch.Tensor) -> Tensor:
    data = memoryview(b"")
    if value.numel():
        raw = value.view(torch.int16) if value.dtype is torch.bfloat16 else value  # unknown to numpy
        data = raw.numpy().data.cast("B")
    return Tensor(name, _NAMES[value.dtype], tuple(value.shape), data)
