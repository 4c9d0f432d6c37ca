"""Executes a model on a real device: operator by operator, compiled, as CUDA graphs, by ONNX Runtime."""

import io
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from cotenant.errors import WorkloadError
from cotenant.workloads.models.entry import ModelEntry
from cotenant.workloads.models.inputs import Inputs
from cotenant.workloads.protocol import WorkloadSpec


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
            self._field = "logits" if "logits" in (found := model(**example)) or hasattr(found, "logits") else ""
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
        """Serve one batch."""
        import onnxruntime

        values = {
            wanted.name: onnxruntime.OrtValue.from_dlpack(batch[name].contiguous().__dlpack__())
            for wanted, name in zip(self._session.get_inputs(), self._names, strict=True)
        }
        (result,) = self._session.run_with_ort_values(None, values)
        return SimpleNamespace(**{self._field: torch.utils.dlpack.from_dlpack(result)})


class _Tensors(nn.Module):
    """The one tensor of a model's output that a request needs: exported files can only hold tensors."""

    def __init__(self, model: nn.Module, field: str) -> None:
        super().__init__()
        self.model, self.field = model, field

    def forward(self, **batch: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = getattr(self.model(**batch), self.field)
        return result
