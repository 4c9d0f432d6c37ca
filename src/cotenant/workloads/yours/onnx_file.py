"""`model.onnx`: an ONNX file, run by onnxruntime where that is installed."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

from pydantic import Field

from cotenant.errors import WorkloadError
from cotenant.workloads.protocol import Built, Place, Stage, WorkloadSpec
from cotenant.workloads.spec_options import UNKNOWN_DTYPE, Opaque, StatedOptions, read_options, refuse_unused
from cotenant.workloads.yours.files import InputDtype, existing_file, first_line, identity, made_up

SUFFIXES = (".onnx",)

_DTYPES: Mapping[str, InputDtype] = {
    "tensor(double)": "float64",
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(bool)": "bool",
}


class OnnxOptions(StatedOptions):
    """Sizes of the dimensions the model leaves open."""

    dims: dict[str, int] = Field(default_factory=dict)
    integers_below: int = Field(default=100, ge=1)


@dataclass(frozen=True, slots=True)
class OnnxFile(Opaque):
    """The model in an ONNX file, fed with random inputs of its shapes."""

    options: ClassVar[type[StatedOptions]] = OnnxOptions
    about: str = "an ONNX file, run by onnxruntime"

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse a missing file and a machine without onnxruntime; nothing is loaded."""
        refuse_unused(spec, used={"seq"})
        read_options(spec, OnnxOptions)
        existing_file(self.name)
        if find_spec("onnxruntime") is None:
            raise WorkloadError(
                f"`{self.name}` needs onnxruntime, which is not installed",
                hint="install it with `pip install 'cotenant[onnx]'`",
            )

    def build(self, spec: WorkloadSpec, place: Place) -> Built:
        """Open a session, make the inputs, and try a request."""
        self.check(spec)
        import onnxruntime
        import torch

        path = existing_file(self.name)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = torch.get_num_threads()  # as many as the tenant's seat allows
        settings.inter_op_num_threads = 1
        settings.log_severity_level = 3
        provider = _provider(self.name, place.torch_device, onnxruntime.get_available_providers())
        try:
            session = onnxruntime.InferenceSession(str(path), settings, providers=[provider])
        except Exception as error:
            raise WorkloadError(f"`{self.name}` can't be loaded: {first_line(error)}") from error
        feeds = {
            wanted.name: made_up(
                filled_shape(wanted.name, wanted.shape, spec),
                _dtype(self.name, wanted),
                integers_below=read_options(spec, OnnxOptions).integers_below,
                seed=spec.seed + number,
            )
            for number, wanted in enumerate(session.get_inputs())
        }

        def compute(_: Any) -> Any:
            return session.run(None, feeds)

        try:
            compute(None)
        except Exception as error:
            raise WorkloadError(f"`{self.name}` fails on random inputs: {first_line(error)}") from error
        return Built(
            stages=(Stage("compute", compute),),
            dtype=UNKNOWN_DTYPE,
            weights=str(path),
            seq=spec.seq,
            facts={
                **identity(path),
                "inputs": {name: list(value.shape) for name, value in feeds.items()},
                "onnxruntime": onnxruntime.__version__,
                "provider": session.get_providers()[0],
                "threads": settings.intra_op_num_threads,
                "stated": read_options(spec, OnnxOptions).stated.model_dump(exclude_none=True),
            },
        )


def filled_shape(name: str, shape: list[int | str | None], spec: WorkloadSpec) -> tuple[int, ...]:
    """The model's shape with open dimensions filled: the first by the batch, `seq...` by seq, others by `dims`."""
    dims = read_options(spec, OnnxOptions).dims
    filled = []
    for position, size in enumerate(shape):
        if isinstance(size, int):
            if position == 0 and len(shape) > 1 and size != spec.batch:
                raise WorkloadError(
                    f"`{spec.name}` was exported for a batch of {size}, but the tenant sets `batch: {spec.batch}`",
                    hint=f"use `batch: {size}`, or export it again with a dynamic first dimension",
                )
            filled.append(size)
        elif size in dims:
            filled.append(dims[str(size)])
        elif position == 0:
            filled.append(spec.batch)
        elif spec.seq is not None and "seq" in str(size).lower():
            filled.append(spec.seq)
        else:
            raise WorkloadError(
                f"input `{name}` of `{spec.name}` leaves its dimension `{size}` open",
                hint=f"set `params: {{dims: {{{size}: 128}}}}`",
            )
    return tuple(filled)


def _dtype(name: str, wanted: Any) -> InputDtype:
    if wanted.type not in _DTYPES:
        raise WorkloadError(f"input `{wanted.name}` of `{name}` is a {wanted.type}, which can't be generated")
    return _DTYPES[wanted.type]


def _provider(name: str, torch_device: str, available: list[str]) -> Any:
    kind, _, index = torch_device.partition(":")
    if kind == "cpu":
        return "CPUExecutionProvider"
    if kind == "cuda" and "CUDAExecutionProvider" in available:
        return ("CUDAExecutionProvider", {"device_id": int(index or 0)})
    raise WorkloadError(
        f"`{name}` can't run on {torch_device}: this onnxruntime supports {', '.join(available)}",
        hint="install `onnxruntime-gpu` for NVIDIA devices",
    )
