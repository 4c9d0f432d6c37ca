"""Tensors to a model of ours and back: one pass, or a decoder's tokens, which take options as parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cotenant.errors import BadInput
from cotenant.serving.conduct.pending import Pending
from cotenant.serving.conduct.tickets import TokenSink
from cotenant.serving.engines.protocol import Prompt, Scored
from cotenant.serving.http.options import SAMPLING, Off, check_options, read_sampling
from cotenant.serving.processes.parcel import Parcel, Tensor
from cotenant.serving.service import Served, Service, Wishes
from cotenant.serving.written_text import Writer

PARAMETERS = ("timeout", "priority", "binary_data_output")
_OFF: Off = {
    "sequence_id": (0, ""),
    "sequence_start": (False,),
    "sequence_end": (False,),
    "triton_enable_empty_final_response": (True, False),
}


def infer_tensors(
    service: Service,
    served: Served,
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
    writer, made = Writer(served.codec, prompt, stops), list[int]()

    def take(tokens: list[int], scores: Sequence[Scored]) -> bool:
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


def _prompt(served: Served, parcel: Parcel, parameters: Mapping[str, Any]) -> tuple[Prompt, tuple[str, ...]]:
    """The prompt, and its stop texts. Unless told otherwise, the most likely tokens, past the model's own end."""
    ids = tuple(memoryview(parcel.tensors[0].data).cast("B").cast("q"))
    if type(parameters.get("stop_token_ids")) is int:  # gRPC has no lists
        parameters = {**parameters, "stop_token_ids": [parameters["stop_token_ids"]]}
    sampling = read_sampling(parameters, served.signature, temperature=0.0, ignore_eos=True)
    ends = () if sampling.ignores_end or served.codec is None else served.codec.stops
    template = sampling.prompt
    tokens = template.tokens or max(served.tokens, template.min_tokens)
    return replace(template, ids=ids, tokens=tokens, stop=(*template.stop, *ends)), sampling.stop
