"""`model.pt`: a TorchScript file. Python pickles with the same suffix are refused, never opened."""

import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from cotenant.errors import WorkloadError
from cotenant.workloads.protocol import Built, Place, Stage, WorkloadSpec
from cotenant.workloads.spec_options import UNKNOWN_DTYPE, Opaque, StatedOptions, read_options, refuse_unused
from cotenant.workloads.yours.files import InputDtype, existing_file, first_line, identity, made_up
from cotenant.workloads.yours.function import what_and_where

EXPORTED = ".pt2"
SUFFIXES = (".pt", ".pth", ".ts", ".jit", ".torchscript", EXPORTED)

Shape = list[int | Literal["seq"]]


class TorchScriptOptions(StatedOptions):
    """The model's inputs: TorchScript files don't describe them."""

    shape: Shape | list[Shape]
    """Shape of an item, without the batch: `[3, 224, 224]`, `[seq]`, or a list for each of several inputs."""
    input_dtype: InputDtype | list[InputDtype] = "float32"
    integers_below: int = Field(default=100, ge=1)

    @field_validator("shape")
    @classmethod
    def _positive(cls, shape: Any) -> Any:
        flat = [n for part in shape for n in (part if isinstance(part, list) else [part])]
        if any(isinstance(n, int) and n < 1 for n in flat):
            raise ValueError("every dimension is at least 1")
        return shape

    @model_validator(mode="after")
    def _one_dtype_each(self) -> "TorchScriptOptions":
        if isinstance(self.input_dtype, list) and len(self.input_dtype) != len(self.shapes):
            raise ValueError(f"{len(self.shapes)} inputs, but {len(self.input_dtype)} number formats")
        return self

    @property
    def shapes(self) -> list[Shape]:
        """One for each input."""
        several = [part for part in self.shape if isinstance(part, list)]
        return several or [[n for n in self.shape if not isinstance(n, list)]]

    @property
    def dtypes(self) -> list[InputDtype]:
        """One for each input."""
        return self.input_dtype if isinstance(self.input_dtype, list) else [self.input_dtype] * len(self.shapes)


@dataclass(frozen=True, slots=True)
class TorchScriptFile(Opaque):
    """The model in a TorchScript file, fed with random inputs."""

    options: ClassVar[type[StatedOptions]] = TorchScriptOptions
    about: str = "a TorchScript file"

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse anything but a TorchScript archive, and undescribed inputs; nothing is loaded."""
        refuse_unused(spec, used={"seq"})
        require_torchscript(existing_file(self.name), self.name)
        _full_shapes(spec)

    def build(self, spec: WorkloadSpec, place: Place) -> Built:
        """Load the model onto the place, make its inputs there, and try a request."""
        self.check(spec)
        import torch

        path = existing_file(self.name)
        options = read_options(spec, TorchScriptOptions)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript is frozen, not removed
                load: Callable[..., Any] = torch.jit.load
                model = load(str(path), map_location=place.torch_device).eval()
        except (RuntimeError, ValueError) as error:
            raise WorkloadError(f"`{self.name}` can't be loaded: {first_line(error)}") from error
        shapes = _full_shapes(spec)
        inputs = [
            torch.from_numpy(made_up(shape, dtype, integers_below=options.integers_below, seed=spec.seed + number)).to(
                place.torch_device
            )
            for number, (shape, dtype) in enumerate(zip(shapes, options.dtypes, strict=True))
        ]

        def compute(_: Any) -> Any:
            with torch.inference_mode():
                return model(*inputs)

        try:
            compute(None)
        except Exception as error:
            raise WorkloadError(
                f"`{self.name}` fails on inputs of shape {', '.join(map(str, shapes))}: {_last_line(error)}",
                hint="`params: {shape, input_dtype}` describe one item; the batch is added in front",
            ) from error
        return Built(
            stages=(Stage("compute", compute),),
            dtype=_dtype_of(model) or UNKNOWN_DTYPE,
            weights=str(path),
            seq=spec.seq,
            facts={
                **identity(path),
                "input_shapes": [list(shape) for shape in shapes],
                "input_dtypes": options.dtypes,
                "inputs": "normal, or integers below the limit",
                "stated": options.stated.model_dump(exclude_none=True),
            },
        )


def require_torchscript(path: Path, name: str) -> None:
    """Refuse pickles and other archives, by their table of contents."""
    if path.suffix.lower() == EXPORTED:
        raise WorkloadError(
            f"`{name}` is a torch.export archive, parts of which torch unpickles, which could run any code",
            hint="load it in your own function, if you trust it: `workload: my_module:my_function`",
        )
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry.partition("/")[2] for entry in archive.namelist()]
    except (zipfile.BadZipFile, OSError):
        entries = []
    if "constants.pkl" not in entries or not any(entry.startswith("code/") for entry in entries):
        kind = "a Python pickle (a state_dict or a complete module)" if "data.pkl" in entries else "something else"
        raise WorkloadError(
            f"`{name}` is not a TorchScript file but {kind}, and pickles are never opened",
            hint="save it with `torch.jit.save(torch.jit.trace(model, example), path)`, or name your own function",
        )


def _full_shapes(spec: WorkloadSpec) -> list[tuple[int, ...]]:
    shapes = read_options(spec, TorchScriptOptions).shapes
    if spec.seq is None and any("seq" in shape for shape in shapes):
        raise WorkloadError(f"the shape of `{spec.name}` has a dimension `seq`, but the tenant has no `seq`")
    if spec.seq is not None and not any("seq" in shape for shape in shapes):
        raise WorkloadError(
            f"`{spec.name}` has `seq: {spec.seq}`, but its shape has no dimension `seq`",
            hint="write the shape as `[seq]` or `[seq, 64]`, or remove `seq`",
        )
    return [(spec.batch, *(n if isinstance(n, int) else spec.seq or 0 for n in shape)) for shape in shapes]


def _dtype_of(model: Any) -> str | None:
    first = next(iter(model.parameters()), None)
    return None if first is None else str(first.dtype).removeprefix("torch.")


def _last_line(error: Exception) -> str:
    """TorchScript puts its own traceback first and the reason last."""
    return (str(error).strip().splitlines() or [what_and_where(error)])[-1][:300].rstrip(".")
