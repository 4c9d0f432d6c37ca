"""Tensors of the Open Inference Protocol: JSON numbers, or raw bytes after a JSON header."""

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cotenant.errors import BadInput
from cotenant.serving.codec import TextWriter
from cotenant.serving.http.messages import read_json, to_json
from cotenant.serving.http.request_options import SAMPLING, Off, check_options, read_sampling
from cotenant.serving.service import ServedModel, Service, Wishes
from cotenant.serving.tensors import SIZES, Parcel, Tensor
from cotenant.serving.tickets import Pending, TokenSink
from cotenant.serving.workers.work import Prompt, ScoredToken

HEADER = "inference-header-content-length"
LARGEST_RANK = 8
_NOTHING = memoryview(b"")
_FORMATS = {
    "BOOL": "?", "UINT8": "B", "INT8": "b", "UINT16": "H", "INT16": "h", "UINT32": "I", "INT32": "i", "UINT64": "Q",
    "INT64": "q", "FP16": "e", "FP32": "f", "FP64": "d",
}  # fmt: skip
_FIELDS = ("id", "model_name", "model_version", "parameters", "inputs", "outputs")
_INPUT_FIELDS = ("name", "datatype", "shape", "data", "parameters")
SHARED_MEMORY: Off = dict.fromkeys(("shared_memory_region", "shared_memory_byte_size", "shared_memory_offset"), ())


def read_inputs(headers: Mapping[str, str], body: bytes) -> tuple[dict[str, Any], Parcel]:
    """The request's JSON, and its tensors. Raises BadInput."""
    header, rest = split(headers, body)
    check_options(header, _FIELDS, {}, where="a request")
    listed = header.get("inputs")
    if not isinstance(listed, list) or not listed:
        raise BadInput("`inputs` must be a list of tensors.")
    tensors, at = [], 0
    for entry in listed:
        tensor, used = _tensor(entry, rest[at:])
        tensors.append(tensor)
        at += used
    if at != len(rest):
        raise BadInput(f"{len(rest) - at} bytes follow the last tensor.")
    return header, Parcel(tuple(tensors))


def split(headers: Mapping[str, str], body: bytes) -> tuple[dict[str, Any], memoryview]:
    """The JSON of a message, and the raw bytes that follow it. Raises BadInput."""
    size = headers.get(HEADER)
    if size is None:
        return read_json(body), _NOTHING
    view = memoryview(body)
    if not size.isdecimal() or int(size) > len(body):
        raise BadInput(f"{HEADER} is {size[:20]!r}, but the body has {len(body)} bytes.")
    return read_json(view[: int(size)]), view[int(size) :]


def write_outputs(
    tensors: Iterable[Tensor], header: dict[str, Any], binary: Mapping[str, bool]
) -> tuple[bytes, int | None]:
    """The body of an answer and, if it has raw bytes, the length of its JSON header."""
    outputs, raw = [], []
    for tensor in tensors:
        entry: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
        if binary.get(tensor.name, False):
            entry["parameters"] = {"binary_data_size": len(tensor.data)}
            raw.append(tensor.data)
        else:
            entry["data"] = numbers_of(tensor)
        outputs.append(entry)
    text = to_json({**header, "outputs": outputs})
    return (b"".join((text, *raw)), len(text)) if raw else (text, None)


def _tensor(entry: Any, rest: memoryview) -> tuple[Tensor, int]:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise BadInput("Each input needs a `name`.")
    check_options(entry, _INPUT_FIELDS, {}, where="an input")
    name, datatype, shape = entry["name"][:200], entry.get("datatype"), entry.get("shape")
    if not isinstance(datatype, str) or datatype not in SIZES:
        raise BadInput(f"The input {name} has an unknown datatype; there are {', '.join(SIZES)}.")
    if (
        not isinstance(shape, list)
        or len(shape) > LARGEST_RANK
        or [size for size in shape if type(size) is not int or not 0 <= size < 2**31]
    ):
        raise BadInput(f"The shape of the input {name} must be a list of sizes.")
    expected = math.prod(shape) * SIZES[datatype]
    size = _announced(name, parameters) if (parameters := entry.get("parameters")) else None
    if size is not None:
        if type(size) is not int or size != expected or size > len(rest):
            raise BadInput(f"The input {name} needs {expected} bytes, but {size} were announced and {len(rest)} sent.")
        return Tensor(name, datatype, tuple(shape), rest[:size]), size
    if datatype not in _FORMATS:
        raise BadInput(f"The input {name}: {datatype} can only be sent as binary data.")
    return Tensor(name, datatype, tuple(shape), packed(name, datatype, shape, entry.get("data"))), 0


def _announced(name: str, parameters: Any) -> Any:
    """How many bytes of a tensor follow the header, as its sender says; None if it is in the header."""
    if not isinstance(parameters, dict):
        raise BadInput(f"The parameters of the input {name} must be an object.")
    check_options(parameters, ("binary_data_size",), SHARED_MEMORY, where="an input")
    return parameters.get("binary_data_size")


def check_output(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of a requested output. Raises BadInput."""
    check_options(entry, ("name", "parameters"), {}, where="an output")
    parameters = entry.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise BadInput("The parameters of an output must be an object.")
    check_options(parameters, ("binary_data",), {**SHARED_MEMORY, "classification": (0,)}, where="an output")
    return parameters


def packed(name: str, datatype: str, shape: Sequence[int], data: Any) -> bytes:
    """Numbers of a tensor, nested or flat, as bytes. Raises BadInput."""
    if not isinstance(data, list):
        raise BadInput(f"The input {name} has no `data`.")
    count = math.prod(shape)
    numbers = data
    for _ in shape[1:]:  # nested lists are accepted like flat ones
        if numbers and isinstance(numbers[0], list):
            if not all(isinstance(part, list) for part in numbers):
                raise BadInput(f"The data of the input {name} isn't of one shape.")
            numbers = [number for part in numbers for number in part]
    if len(numbers) != count:
        raise BadInput(f"The input {name} has {len(numbers)} numbers, but its shape {list(shape)} has {count}.")
    try:
        return struct.pack(f"<{count}{_FORMATS[datatype]}", *numbers)
    except (struct.error, OverflowError, TypeError):
        raise BadInput(f"The data of the input {name} doesn't fit {datatype}.") from None


def numbers_of(tensor: Tensor) -> list[Any]:
    """The numbers of a tensor, row by row. Raises BadInput for a type without a JSON form."""
    if tensor.datatype not in _FORMATS:
        raise BadInput(f"The output {tensor.name} is {tensor.datatype}, which has no JSON form; request binary data.")
    values = struct.unpack(f"<{math.prod(tensor.shape)}{_FORMATS[tensor.datatype]}", tensor.data)
    return list(values)


# Tensors to a model of ours and back: one pass, or a decoder's tokens, which take options as parameters.

PARAMETERS = ("timeout", "priority", "binary_data_output")
_OFF: Off = {
    "sequence_id": (0, ""),
    "sequence_start": (False,),
    "sequence_end": (False,),
    "triton_enable_empty_final_response": (True, False),
}


def infer_tensors(
    service: Service,
    served: ServedModel,
    parcel: Parcel,
    parameters: Mapping[str, Any],
    wishes: Wishes,
    *,
    sink: TokenSink | None = None,
) -> Pending[Parcel]:
    """One request to a model of our own; a decoder's ``sink`` hears of each token.

    Raises:
        BadInput: The model can't accept it, or a parameter is unknown.
        Refused: It was refused; also when it is awaited.
    """
    where = f"A request to {served.name}"
    if not served.signature.decodes:
        check_options(parameters, PARAMETERS, _OFF, where=where)
        return service.infer(served.name, parcel, wishes)
    check_options(parameters, (*PARAMETERS, *SAMPLING, *(("stream",) if sink else ())), _OFF, where=where)
    served.signature.check(parcel)
    prompt, stops = _prompt(served, parcel, parameters)
    if not stops:
        serving = service.generate(served.name, replace(prompt, streams=sink is not None), wishes, sink)
        return serving.into(token_parcel)
    if served.codec is None:
        raise BadInput(f"{served.name} has no tokenizer, which `stop` needs.", hint="Use `stop_token_ids`.")
    writer, made = TextWriter(served.codec, prompt, stops), list[int]()

    def take(tokens: list[int], scores: Sequence[ScoredToken]) -> bool:
        new = []
        for token in tokens:
            if writer.reason is None:
                writer.put(token)
                new.append(token)
        made.extend(new)
        if sink is not None and new:
            sink(new, scores)
        return writer.stopped

    serving = service.generate(served.name, replace(prompt, streams=sink is not None), wishes, take)
    return serving.into(lambda _: token_parcel(made))


def token_parcel(made: Sequence[int]) -> Parcel:
    """Tokens as a decoder's output."""
    data = b"".join(token.to_bytes(8, "little", signed=True) for token in made)
    return Parcel((Tensor("tokens", "INT64", (1, len(made)), data),))


def _prompt(served: ServedModel, parcel: Parcel, parameters: Mapping[str, Any]) -> tuple[Prompt, tuple[str, ...]]:
    """The prompt, and its stop texts. Unless told otherwise, the most likely tokens, past the model's own end."""
    ids = tuple(memoryview(parcel.tensors[0].data).cast("B").cast("q"))
    if type(parameters.get("stop_token_ids")) is int:  # gRPC has no lists
        parameters = {**parameters, "stop_token_ids": [parameters["stop_token_ids"]]}
    sampling = read_sampling(parameters, served.signature, temperature=0.0, ignore_eos=True)
    ends = () if sampling.ignores_end or served.codec is None else served.codec.stops
    template = sampling.prompt
    tokens = template.tokens or max(served.tokens, template.min_tokens)
    return replace(template, ids=ids, tokens=tokens, stop=(*template.stop, *ends)), sampling.stop
