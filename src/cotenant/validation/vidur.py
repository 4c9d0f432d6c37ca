"""Products of language models' layers, over tokens and tensor-parallel degree: A100 and A40."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.devices.simulated.cost import plain_roofline_ns, solo_costs
from cotenant.devices.simulated.kernels import Kernels
from cotenant.devices.simulated.operators import columns, rows_of
from cotenant.validation.measures import absolute_error
from cotenant.validation.reading import number, read_table
from cotenant.validation.result import Result, Row, Target
from cotenant.workloads.protocol import Operator

_LAYERS = ("attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj")
_SIZES = ("n_embd", "n_expanded_embd", "use_gated_mlp", "num_tokens", "num_tensor_parallel_workers")
_WIDTH = 2
"""Bytes of a float16."""


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    model: str
    gpu: str
    held_out: bool


_FILES = (
    _File("solo/vidur/a100_Llama-2-7b-hf_mlp.csv", "Llama-2-7B", "a100-sxm4-80gb", held_out=False),
    _File("solo/vidur/a100_phi-2_mlp.csv", "phi-2", "a100-sxm4-80gb", held_out=True),
    _File("solo/vidur/a40_phi-2_mlp.csv", "phi-2", "a40", held_out=True),
)


def validate(data: Path) -> tuple[Result, ...]:
    """Simulated beside measured."""
    rows = [row for file in _FILES for row in _rows(data, file)]
    error = absolute_error(rows, of="time", average="median", target=Target(high=12.0))
    return (
        Result(
            data_set="vidur",
            what="products of language models' layers, 1 to 4096 tokens, float16",
            source="microsoft/vidur, MIT; A100 80GB and A40",
            split="tiles and efficiencies fitted on Llama-2-7B on an A100; phi-2 on it and all of the A40 held out.",
            quantity="time",
            unit="us",
            rows=tuple(rows),
            measures=(error, absolute_error(rows, of="time")),
            notes=("The data give times in whole microseconds, so that the shortest ones are uncertain by several %.",),
        ),
    )


def _rows(data: Path, file: _File) -> list[Row]:
    columns_needed = (*_SIZES, *(f"time_stats.{layer}.median" for layer in _LAYERS))
    cases: list[str] = []
    measured: list[float] = []
    operators: list[Operator] = []
    for line in read_table(data, file.name, columns_needed):
        for layer, (m, n, k) in _products(line, file.name).items():
            column = f"time_stats.{layer}.median"
            measured.append(number(line[column], file.name, column) * 1e3)
            cases.append(f"{file.model} {layer}, {m} x {n} x {k}, {file.gpu}")
            operators.append(_product(m, n, k))
    kernels = _kernels(operators)
    gpu = find_gpu(file.gpu)
    simulated = solo_costs(kernels, gpu).duration_ns / 1e3
    roofline = plain_roofline_ns(kernels, gpu) / 1e3
    return [
        Row(case, value, float(here), {"plain roofline": float(plain)}, held_out=file.held_out)
        for case, value, here, plain in zip(cases, measured, simulated, roofline, strict=True)
    ]


def _products(line: Mapping[str, str], file: str) -> dict[str, tuple[int, int, int]]:
    """Rows, columns and depth of each layer's product on one of the GPUs that share the layer."""
    sizes = {name: int(number(line[name], file, name)) for name in _SIZES if name != "use_gated_mlp"}
    parts = sizes["num_tensor_parallel_workers"]
    tokens, width, inner = sizes["num_tokens"], sizes["n_embd"], sizes["n_expanded_embd"] // parts
    gates = 2 if line["use_gated_mlp"] == "True" else 1
    return {
        "attn_pre_proj": (tokens, 3 * width // parts, width),
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
