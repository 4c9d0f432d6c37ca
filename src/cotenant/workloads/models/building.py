"""Builds the model of a spec on its place: its weights, its software, its stages."""

import io
from collections.abc import Callable
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from cotenant.errors import WorkloadError
from cotenant.workloads.models.describing import DEFAULT_DTYPE, summed
from cotenant.workloads.models.entry import ModelEntry, mode_of
from cotenant.workloads.models.inputs import Inputs, Tensors, hidden_inputs, host_of, make_inputs
from cotenant.workloads.models.skeleton import build_skeleton, materialise
from cotenant.workloads.models.watching import Watch
from cotenant.workloads.models.weights import load
from cotenant.workloads.protocol import DEFAULT_TOKENS, Built, Place, Properties, Stage, WorkloadSpec
from cotenant.workloads.slices import ModelBlocks, ModelTail, find_blocks, plan_cut


def build_model(entry: ModelEntry, spec: WorkloadSpec, place: Place) -> Built:
    """The model with its weights and inputs on the place, and the stages of a request."""
    simulated = {
        "quantised": spec.quantised,
        "parallel": spec.parallel > 1,
        "prefix_hits": spec.prefix_hits,
        "attention": spec.attention == "looped",
        "loading": spec.loading_s,
    }
    if any(simulated.values()):
        only = next(name for name, stated in simulated.items() if stated)
        raise WorkloadError(
            f"{entry.name}: `{only}{': looped' if only == 'attention' else ''}` is simulated only",
            hint="measure code that loads data, as `workload: package.module:function`"
            if only == "loading"
            else "measure a server that does it, such as vLLM, as a tenant: `workload: openai:http://...`",
        )
    if spec.tf32:
        torch.set_float32_matmul_precision("high")
    device = place.torch_device
    dtype_name = spec.dtype or place.default_dtype
    dtype: torch.dtype = getattr(torch, dtype_name)
    model, inputs = stand(entry, spec, device=device, dtype=dtype)
    if spec.attention == "unfused":
        _unfuse_attention(entry, model)
    if spec.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        inputs = Inputs(tuple(map(_channels_last, inputs.ring)), inputs.facts)
    if device.startswith("cuda"):
        inputs = Inputs(tuple({k: v.pin_memory() for k, v in tensors.items()} for tensors in inputs.ring), inputs.facts)
    model = executed(model, entry, spec, inputs, device)
    return Built(
        stages=stages_of(model, entry, spec, inputs, device),
        dtype=dtype_name,
        weights=spec.weights or f"random({spec.seed})",
        seq=spec.seq or entry.seq,
        facts={**inputs.facts, **_facts(model, mode_of(entry, spec)), "software": spec.software or "eager"},
    )


def stand(entry: ModelEntry, spec: WorkloadSpec, *, device: str, dtype: torch.dtype) -> tuple[nn.Module, Inputs]:
    """The model (or the slice the spec names) on a device, and its inputs on the host."""
    mode = mode_of(entry, spec)
    inputs = make_inputs(entry, spec, dtype=dtype, device=host_of(device))
    # A description only needs shapes: weights are never read for it.
    reads_weights = spec.weights is not None and device != "meta"
    model = (
        load(entry, mode, str(spec.weights), dtype=dtype, seed=spec.seed)
        if reads_weights
        else build_skeleton(entry, mode)
    )
    if spec.layers == "full":
        return _placed(model, device, dtype, spec.seed, loaded=reads_weights), inputs
    cut = plan_cut(_survey(entry, spec, mode, dtype), spec.layers)
    tail = ModelTail(model, cut)
    _placed(tail, device, dtype, spec.seed, loaded=reads_weights)
    tail.prompt = {name: value.to(device) for name, value in inputs.ring[0].items()}
    return tail, hidden_inputs(cut.hidden_shape, dtype=dtype, seed=spec.seed, device=host_of(device))


def _placed(model: nn.Module, device: str, dtype: torch.dtype, seed: int, *, loaded: bool) -> nn.Module:
    return model.to(device) if loaded else materialise(model, device=device, dtype=dtype, seed=seed)


def _survey(entry: ModelEntry, spec: WorkloadSpec, mode: str, dtype: torch.dtype) -> ModelBlocks:
    whole = materialise(build_skeleton(entry, mode), device="meta", dtype=dtype, seed=spec.seed)
    inputs = make_inputs(entry, spec, dtype=dtype, device="meta")
    with Watch():
        return find_blocks(whole, inputs.ring[0])


def stages_of(
    model: nn.Module, entry: ModelEntry, spec: WorkloadSpec, inputs: Inputs, device: str
) -> tuple[Stage, ...]:
    """The stages of a request of this spec, inference or training."""
    if spec.train:
        return training_stages(model, entry, spec, inputs, device=device)
    return inference_stages(model, entry, mode_of(entry, spec), inputs, device=device, tokens=spec.tokens)


def _unfuse_attention(entry: ModelEntry, model: nn.Module) -> None:
    change = getattr(model, "set_attn_implementation", None)
    if change is None:
        raise WorkloadError(f"{entry.name}: its attention can't be unfused", hint="leave `attention` out")
    change("eager")


def _channels_last(tensors: Tensors) -> Tensors:
    images = {name: tensor for name, tensor in tensors.items() if tensor.dim() == 4}
    return {**tensors, **{k: v.contiguous(memory_format=torch.channels_last) for k, v in images.items()}}


def _facts(model: nn.Module, mode: str) -> dict[str, Any]:
    import transformers

    facts: dict[str, Any] = {"mode": mode, "torch": torch.__version__, "transformers": transformers.__version__}
    attention = getattr(getattr(model, "config", None), "_attn_implementation", None)
    if attention is not None:
        facts["attention"] = attention
    return facts


LEARNING_RATE = 1e-5
"""Small: a workload may take a million steps on the same batch and must stay finite."""


def training_stages(
    model: nn.Module, entry: ModelEntry, spec: WorkloadSpec, inputs: Inputs, *, device: str
) -> tuple[Stage, ...]:
    """The stages of a step on a batch, with AdamW."""
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    labelled = Inputs(
        tuple({**tensors, "labels": _labels(entry, spec, tensors)} for tensors in inputs.ring), inputs.facts
    )
    writes = entry.family in ("decoder", "seq2seq")
    extra = {"use_cache": False} if writes else {}

    def forward(batch: Tensors) -> torch.Tensor:
        labels = batch.pop("labels")
        logits = model(**batch, **extra).logits.float()
        if writes:
            logits = logits[:, :-1].flatten(0, 1)  # each position predicts the next token
        return nn.functional.cross_entropy(logits, labels)

    def backward(loss: torch.Tensor) -> torch.Tensor:
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def optimise(loss: torch.Tensor) -> Any:
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return loss

    return (
        to_device_stage(labelled, device),
        Stage("forward", forward),
        Stage("backward", backward),
        Stage("optimiser", optimise),
    )


def _labels(entry: ModelEntry, spec: WorkloadSpec, tensors: Tensors) -> torch.Tensor:
    example = next(iter(tensors.values()))
    if entry.family == "seq2seq":
        return tensors["decoder_input_ids"][:, 1:].flatten()
    if entry.family == "decoder":
        tokens = tensors.get("input_ids", torch.zeros(example.shape[:2], dtype=torch.long, device=example.device))
        return tokens[:, 1:].flatten()
    return torch.zeros(spec.batch, dtype=torch.long, device=example.device)


def dry_run(entry: ModelEntry, spec: WorkloadSpec, *, preparation: bool = True) -> Properties:
    """One request, traced on `meta`; with ``preparation``, the peak includes what precedes it (a decode's prompt)."""
    dtype: torch.dtype = getattr(torch, spec.dtype or DEFAULT_DTYPE)
    model, inputs = stand(entry, spec, device="meta", dtype=dtype)
    with Watch() as watch:
        watch.hold([*model.parameters(), *model.buffers()])
        weight_bytes = watch.live_bytes
        stages = stages_of(model, entry, spec, inputs, "meta")
        prepared = watch.peak_bytes if preparation else 0
        # The first training step creates the optimiser's state; a later step is described.
        for _ in range(2 if spec.train else 1):
            watch.restart()
            state = None
            for stage in stages:
                for _ in range(stage.repeat):
                    state = stage.run(state)
        peak, operators = max(prepared, watch.peak_bytes), tuple(watch.operators)
    base = Properties(
        params=sum(parameter.numel() for parameter in model.parameters()),
        weight_bytes=weight_bytes,
        flops=None,
        bytes_moved=None,
        peak_memory_bytes=peak,
        input_bytes=sum(value.untyped_storage().nbytes() for tensors in inputs.ring for value in tensors.values()),
    )
    return summed(base, operators)


# Execution on a real device: operator by operator, compiled, as CUDA graphs, by ONNX Runtime.


def executed(model: nn.Module, entry: ModelEntry, spec: WorkloadSpec, inputs: Inputs, device: str) -> nn.Module:
    """The model as this software runs it.

    Raises:
        WorkloadError: It is not available here; the message says why.
    """
    match spec.software:
        case None | "eager":
            return model
        case "compile":
            return _compiled(model, "inductor")
        case "graphs":
            if not device.startswith("cuda"):
                raise WorkloadError(f"{entry.name}: {device} has no CUDA graphs", hint="use `software: compile`")
            return _compiled(model, "cudagraphs")
        case "tensorrt":
            if not device.startswith("cuda") or find_spec("torch_tensorrt") is None:
                raise WorkloadError(
                    f"{entry.name}: `software: tensorrt` needs an NVIDIA device and the package torch_tensorrt",
                    hint="install torch-tensorrt, or use `software: compile`",
                )
            return _compiled(model, "torch_tensorrt")
        case "onnxruntime":
            return _OnnxModel(model, entry, inputs, device)
        case "vllm":
            raise WorkloadError(
                f"{entry.name}: vLLM runs models in a separate server, not in a tenant's process",
                hint="start `vllm serve` and name its address as the workload; simulated devices have `software: vllm`",
            )


def _compiled(model: nn.Module, backend: str) -> nn.Module:
    compiled: nn.Module = torch.compile(model, backend=backend, dynamic=False)  # type: ignore[assignment]
    return compiled


class _OnnxModel(nn.Module):
    """A model exported once and run by ONNX Runtime; results are tensors on the same device."""

    def __init__(self, model: nn.Module, entry: ModelEntry, inputs: Inputs, device: str) -> None:
        super().__init__()
        missing = [name for name in ("onnxruntime", "onnx", "onnxscript") if find_spec(name) is None]
        if missing:
            raise WorkloadError(
                f"{entry.name}: `software: onnxruntime` needs {' and '.join(missing)}, which isn't installed",
                hint="pip install 'cotenant[onnx]' onnx onnxscript, or use `software: compile`",
            )
        import onnxruntime

        if device.startswith("cuda") and "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
            raise WorkloadError(
                f"{entry.name}: this onnxruntime can't run on {device}", hint="install onnxruntime-gpu instead"
            )
        self._device = torch.device(device)
        example = {name: value.to(device) for name, value in inputs.ring[0].items()}
        with torch.inference_mode():
            self._field = "logits" if "logits" in (output := model(**example)) or hasattr(output, "logits") else ""
        self._field = self._field or "last_hidden_state"
        file = io.BytesIO()
        exported: Any = torch.onnx.export(_Tensors(model, self._field), (), None, kwargs=example, dynamo=True)
        exported.save(file)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads, settings.inter_op_num_threads = torch.get_num_threads(), 1
        provider: Any = "CPUExecutionProvider"
        if self._device.type == "cuda":
            provider = ("CUDAExecutionProvider", {"device_id": self._device.index or 0})
        self._session = onnxruntime.InferenceSession(file.getvalue(), settings, providers=[provider])
        self._names = tuple(example)

    def forward(self, **batch: torch.Tensor) -> SimpleNamespace:
        """Serve a batch."""
        import onnxruntime

        values = {
            wanted.name: onnxruntime.OrtValue.from_dlpack(batch[name].contiguous().__dlpack__())
            for wanted, name in zip(self._session.get_inputs(), self._names, strict=True)
        }
        (result,) = self._session.run_with_ort_values(None, values)
        return SimpleNamespace(**{self._field: torch.utils.dlpack.from_dlpack(result)})


class _Tensors(nn.Module):
    """The tensor of a model's output that a request needs: exported files can only hold tensors."""

    def __init__(self, model: nn.Module, field: str) -> None:
        super().__init__()
        self.model, self.field = model, field

    def forward(self, **batch: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = getattr(self.model(**batch), self.field)
        return result


# How a built model serves a request: its stages, by mode.


def inference_stages(
    model: nn.Module, entry: ModelEntry, mode: str, inputs: Inputs, *, device: str, tokens: int | None = None
) -> tuple[Stage, ...]:
    """The stages of a request."""
    match mode:
        case "prefill":
            return _around(_quiet(lambda batch: _prefill(model, batch)[1]), inputs, device, first_output=True)
        case "decode":
            return _decode_stages(model, inputs, device)
        case "generate":
            return _generate_stages(model, inputs, device, tokens or DEFAULT_TOKENS)
        case _:
            return _around(_quiet(_forward(model, entry, mode)), inputs, device)


def to_device_stage(inputs: Inputs, device: str) -> Stage:
    """Move the next input to the device."""
    turns = inputs.turns()
    copies = torch.device(device).type != "cuda"

    def to_device(_: Any) -> Tensors:
        # On a CPU the copy is made too: a free stage would misrepresent the request.
        return {name: value.to(device, non_blocking=True, copy=copies) for name, value in next(turns).items()}

    return Stage("to_device", to_device)


def _around(
    compute: Callable[[Any], Any], inputs: Inputs, device: str, *, first_output: bool = False
) -> tuple[Stage, ...]:
    return (
        to_device_stage(inputs, device),
        Stage("compute", compute, first_output=first_output),
        Stage("to_host", _to_host(device)),
    )


def _to_host(device: str) -> Callable[[torch.Tensor], torch.Tensor]:
    host = host_of(device)
    return lambda result: result.to(host, copy=True)


def _quiet(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """No gradients are recorded: this is inference."""
    wrapped: Callable[[Any], Any] = torch.inference_mode()(function)
    return wrapped


def _forward(model: nn.Module, entry: ModelEntry, mode: str) -> Callable[[Tensors], torch.Tensor]:
    if entry.family in ("decoder", "seq2seq"):
        # All positions get logits, as in a plain forward call; only the last ones leave the device.
        return lambda batch: model(**batch).logits[:, -1]
    if mode == "embed":
        return lambda batch: model(**batch).last_hidden_state.mean(dim=1)
    return lambda batch: model(**batch).logits


def _prefill(model: nn.Module, batch: Tensors) -> tuple[Any, torch.Tensor]:
    from transformers import DynamicCache

    cache = DynamicCache()
    result = model(**batch, past_key_values=cache, use_cache=True, logits_to_keep=1)
    return cache, result.logits[:, -1].argmax(dim=-1, keepdim=True)


def _step(model: nn.Module, cache: Any, token: torch.Tensor) -> torch.Tensor:
    logits = model(input_ids=token, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
    following: torch.Tensor = logits[:, -1].argmax(dim=-1, keepdim=True)
    return following


def _decode_stages(model: nn.Module, inputs: Inputs, device: str) -> tuple[Stage, ...]:
    """One token per request, always at the same context length: the cache is truncated after each step."""
    prompt = {name: value.to(device) for name, value in inputs.ring[0].items()}
    cache, token = _quiet(lambda batch: _prefill(model, batch))(prompt)
    host_token = token if device == "meta" else token.cpu()

    def compute(batch: Tensors) -> torch.Tensor:
        following = _step(model, cache, batch["token"])
        cache.crop(-1)
        return following

    return _around(_quiet(compute), Inputs(({"token": host_token},)), device)


def _generate_stages(model: nn.Module, inputs: Inputs, device: str, tokens: int) -> tuple[Stage, ...]:
    def prefill(batch: Tensors) -> tuple[Any, list[torch.Tensor]]:
        cache, token = _prefill(model, batch)
        return cache, [token]

    def decode(state: tuple[Any, list[torch.Tensor]]) -> tuple[Any, list[torch.Tensor]]:
        cache, made = state
        made.append(_step(model, cache, made[-1]))
        return state

    copy = _to_host(device)
    steps = (Stage("decode", _quiet(decode), repeat=tokens - 1),) if tokens > 1 else ()
    return (
        to_device_stage(inputs, device),
        Stage("prefill", _quiet(prefill), first_output=True),
        *steps,
        Stage("to_host", _quiet(lambda state: copy(torch.cat(state[1], dim=1)))),
    )
