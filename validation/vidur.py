"""Products of language models' layers, over tokens and tensor-parallel degree, by GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cotenant.devices.simulated.catalogue import find_gpu, gpu_names
from cotenant.prediction.kernels.columns import Kernels
from cotenant.prediction.kernels.cost import plain_roofline_ns, solo_costs
from cotenant.prediction.kernels.operators import columns, rows_of
from cotenant.workloads.protocol import Operator
from validation.measures import absolute_error
from validation.reading import LeftOutRows, count, files, positive, read_table
from validation.result import Measure, Result, Row, Target

_LAYERS = ("attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj")
_SIZES = ("n_head", "n_kv_head", "n_embd", "n_expanded_embd", "num_tokens", "num_tensor_parallel_workers")
_WIDTH = 2
"""Bytes of a float16."""
_FILES = "solo/vidur/*_mlp.csv"
"""Named by GPU, then model."""
_GPUS = {"a100": "a100-sxm4-80gb", "a40": "a40", "h100": "h100-sxm5-80gb"}
"""The source's names of GPUs; other files may use names of the catalogue."""
_FITTED = ("a100-sxm4-80gb", "Llama-2-7b-hf")
_NOTE = "The data give times in whole microseconds, so that the shortest ones are uncertain by several %."


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    model: str
    gpu: str

    @property
    def held_out(self) -> bool:
        return (self.gpu, self.model) != _FITTED


def validate(data: Path) -> tuple[Result, ...]:
    """Simulated against measured, over every available file."""
    left_out = LeftOutRows()
    files_ = [file for name in files(data, _FILES) if (file := _file(data, name, left_out)) is not None]
    rows = [row for file in files_ for row in _rows(data, file)]
    error = absolute_error(rows, of="time", average="median", target=Target(high=12.0))
    return (
        Result(
            data_set="vidur",
            what="products of language models' layers, float16",
            source="microsoft/vidur, MIT",
            split="tiles and efficiencies fitted on Llama-2-7B on an A100; all other models and GPUs held out: "
            f"{_named(files_)}.",
            quantity="time",
            unit="us",
            rows=tuple(rows),
            measures=(error, absolute_error(rows, of="time"), *_by_gpu(rows, files_)),
            notes=(_NOTE,),
            left_out=left_out.sentences(),
        ),
    )


def _file(data: Path, name: str, left_out: LeftOutRows) -> _File | None:
    called, _, model = Path(name).name.removesuffix("_mlp.csv").partition("_")
    gpu = _GPUS.get(called.lower(), called.lower())
    if gpu in gpu_names():
        return _File(name, model, gpu)
    left_out.add("the file's name begins with no GPU of the catalogue", name, len(read_table(data, name, _SIZES)))
    return None


def _named(files_: Sequence[_File]) -> str:
    return ", ".join(f"{file.model} on {file.gpu}" for file in files_ if file.held_out) or "none"


def _by_gpu(rows: Sequence[Row], files_: Sequence[_File]) -> tuple[Measure, ...]:
    gpus = sorted({file.gpu for file in files_ if file.held_out})
    return tuple(
        absolute_error([row for row in rows if row.case.endswith(f", {gpu}")], of=f"time, {gpu}", average="median")
        for gpu in gpus
        if len(gpus) > 1
    )


def _rows(data: Path, file: _File) -> list[Row]:
    columns_needed = (*_SIZES, "use_gated_mlp", *(f"time_stats.{layer}.median" for layer in _LAYERS))
    cases: list[str] = []
    measured: list[float] = []
    operators: list[Operator] = []
    for line in read_table(data, file.name, columns_needed):
        for layer, (m, n, k) in _products(line, file.name).items():
            column = f"time_stats.{layer}.median"
            measured.append(positive(line[column], file.name, column) * 1e3)
            cases.append(f"{file.model} {layer}, {m} x {n} x {k}, {file.gpu}")
            operators.append(_product(m, n, k))
    kernels = _kernels(operators)
    gpu = find_gpu(file.gpu)
    # Single kernels in short bursts run at boost, a clock that a running model doesn't sustain.
    simulated = solo_costs(kernels, gpu, clock_mhz=gpu.clocks_mhz.boost).duration_ns / 1e3
    roofline = plain_roofline_ns(kernels, gpu) / 1e3
    return [
        Row(case, value, float(here), {"plain roofline": float(plain)}, held_out=file.held_out)
        for case, value, here, plain in zip(cases, measured, simulated, roofline, strict=True)
    ]


def _products(line: Mapping[str, str], file: str) -> dict[str, tuple[int, int, int]]:
    """Rows, columns and depth of each layer's product on one of the GPUs that share the layer."""
    sizes = {name: count(line[name], file, name) for name in _SIZES}
    parts = sizes["num_tensor_parallel_workers"]
    tokens, width, inner = sizes["num_tokens"], sizes["n_embd"], sizes["n_expanded_embd"] // parts
    heads = sizes["n_head"] + 2 * sizes["n_kv_head"]  # keys and values may have fewer heads than queries
    gates = 2 if line["use_gated_mlp"].lower() in {"true", "1"} else 1
    return {
        "attn_pre_proj": (tokens, heads * (width // sizes["n_head"]) // parts, width),
        "attn_post_proj": (tokens, width, width // parts),
        "mlp_up_proj": (tokens, gates * inner, width),
        "mlp_down_proj": (tokens, width, inner),
    }


def _product(m: int, n: int, k: int) -> Operator:
    return Operator(
        name="mm",
        dtype="float16",
        shapes=((m, k), (k, n)),
        out_shapes=((m, n),),
        flops=2.0 * m * n * k,
        bytes_read=float(_WIDTH * (m * k + k * n)),
        bytes_written=float(_WIDTH * m * n),
    )


def _kernels(operators: list[Operator]) -> Kernels:
    return columns(row for operator in operators for row in rows_of(operator))
