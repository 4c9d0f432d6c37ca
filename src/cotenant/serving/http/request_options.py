"""Options of requests: each is obeyed, or refused by its name."""

import secrets
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from cotenant.errors import BadInput
from cotenant.serving.service import Wishes
from cotenant.serving.tensors import Signature
from cotenant.serving.workers.work import Prompt
from cotenant.text import did_you_mean

MOST_STOPS = 16
MOST_LOGPROBS = 20
MOST_BIASES = 1024
SAMPLING = (
    "max_tokens", "max_completion_tokens", "min_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "stop",
    "stop_token_ids", "ignore_eos", "repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias",
)  # fmt: skip
"""What `read_sampling` reads."""
Off = Mapping[str, tuple[Any, ...]]
"""Options that aren't supported, with the values that mean off; null always does."""


class Sampling(NamedTuple):
    """How tokens are chosen, and what ends an answer."""

    prompt: Prompt
    """Everything but its ids and, where the client left it out (0), the number of tokens."""
    stop: tuple[str, ...]
    """Texts that end the answer."""
    ignores_end: bool
    """Whether the model's own end is ignored."""

    def seed(self, number: int) -> int:
        """Several answers to one prompt differ."""
        return self.prompt.seed + number


def check_options(body: Mapping[str, Any], taken: Collection[str], off: Off, *, where: str) -> None:
    """Refuse every option that would be ignored. Raises BadInput."""
    for name, value in body.items():
        if name in taken:
            continue
        if name not in off:
            hint = did_you_mean(name, [*taken, *off], begin="Did") or "Leave it out."
            raise BadInput(f"{where[:1].upper()}{where[1:]} has no option `{name[:100]}`.", hint=hint, param=name[:100])
        if value is not None and not any(_same(value, harmless) for harmless in off[name]):
            raise BadInput(f"`{name}` isn't supported by {where}.", hint="Leave it out.", param=name)


def read_sampling(
    options: Mapping[str, Any], signature: Signature, *, temperature: float = 1.0, ignore_eos: bool = False
) -> Sampling:
    """Read how tokens are to be chosen. Raises BadInput.

    Args:
        options: A request's options; null means the default.
        signature: Of the model.
        temperature: The default.
        ignore_eos: The default.
    """
    tokens = whole(options, "max_completion_tokens", None, least=1)
    if tokens is None:
        tokens = whole(options, "max_tokens", None, least=1)
    top_k = whole(options, "top_k", 0, least=-1) or 0
    seed = whole(options, "seed", None, least=-(2**62) + 1, most=2**62 - 1)
    prompt = Prompt(
        (),
        tokens or 0,
        _stop_ids(options, signature),
        between(options, "temperature", temperature, 0.0, 2.0),
        between(options, "top_p", 1.0, 0.0, 1.0),
        secrets.randbits(62) if seed is None else abs(seed),
        max(0, top_k),
        between(options, "min_p", 0.0, 0.0, 1.0),
        between(options, "repetition_penalty", 1.0, 0.01, 100.0),
        between(options, "presence_penalty", 0.0, -2.0, 2.0),
        between(options, "frequency_penalty", 0.0, -2.0, 2.0),
        _biases(options.get("logit_bias"), signature),
        whole(options, "min_tokens", 0) or 0,
    )
    if tokens is not None and prompt.min_tokens > tokens:
        raise BadInput(f"`min_tokens` is {prompt.min_tokens}, above `max_tokens`, {tokens}.", param="min_tokens")
    ignores = switch(options, "ignore_eos", default=ignore_eos)
    return Sampling(prompt, _stop_texts(options.get("stop")), ignores)


def between(options: Mapping[str, Any], name: str, default: float, low: float, high: float) -> float:
    """A number. Raises BadInput."""
    value = options.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadInput(f"`{name}` lies between {low:g} and {high:g}.", param=name)
    return float(value)


def whole(
    options: Mapping[str, Any], name: str, default: int | None, *, least: int = 0, most: int = 2**31 - 1
) -> int | None:
    """An integer. Raises BadInput."""
    value = options.get(name)
    if value is None:
        return default
    if type(value) is not int or not least <= value <= most:
        limit = f" from {least}" + (f" to {most}" if most < 2**31 - 1 else " on") if abs(least) < 2**31 else ""
        raise BadInput(f"`{name}` is an integer{limit}.", param=name)
    return value


def switch(options: Mapping[str, Any], name: str, *, default: bool = False) -> bool:
    """True or false. Raises BadInput."""
    value = options.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise BadInput(f"`{name}` is true or false.", param=name)
    return value


def _stop_texts(stop: Any) -> tuple[str, ...]:
    stop = () if stop is None else (stop,) if isinstance(stop, str) else stop
    if not isinstance(stop, list | tuple) or len(stop) > MOST_STOPS or not all(isinstance(o, str) and o for o in stop):
        raise BadInput(f"`stop` is a text or up to {MOST_STOPS} of them.", param="stop")
    return tuple(stop)


def _stop_ids(options: Mapping[str, Any], signature: Signature) -> tuple[int, ...]:
    ids = options.get("stop_token_ids")
    ids = () if ids is None else ids
    if not isinstance(ids, list | tuple) or len(ids) > MOST_STOPS or not all(type(token) is int for token in ids):
        raise BadInput(f"`stop_token_ids` is a list of up to {MOST_STOPS} token ids.", param="stop_token_ids")
    signature.check_ids(ids, param="stop_token_ids")
    return tuple(ids)


def _biases(biases: Any, signature: Signature) -> tuple[tuple[int, float], ...]:
    if biases is None:
        return ()
    if not isinstance(biases, dict) or len(biases) > MOST_BIASES:
        raise BadInput(f"`logit_bias` maps up to {MOST_BIASES} token ids to numbers.", param="logit_bias")
    for token, by in biases.items():
        if not token.isdecimal() or isinstance(by, bool) or not isinstance(by, int | float) or abs(by) > 100:
            raise BadInput("`logit_bias` maps token ids to numbers from -100 to 100.", param="logit_bias")
    pairs = tuple((int(token), float(by)) for token, by in biases.items())
    signature.check_ids([token for token, _ in pairs], param="logit_bias")
    return pairs


def _same(value: Any, other: Any) -> bool:
    """Equal, with true and 1 different."""
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


# Deadline and priority, in all the forms clients use.

_DEADLINES_MS = ("x-cotenant-deadline-ms", "x-llm-d-slo-ttft-ms", "x-slo-ttft-ms")
_PER_STEP_MS = ("x-llm-d-slo-tpot-ms", "x-slo-tpot-ms")
_PRIORITY = "x-cotenant-priority"
_HEADERS = frozenset((*_DEADLINES_MS, *_PER_STEP_MS, _PRIORITY))
_NO_WISHES = Wishes()
HIGHEST = 1_000_000


def wishes_of(
    headers: Mapping[str, str], *, timeout_us: Any = None, priority: Any = None, vllm_priority: Any = None
) -> Wishes:
    """Deadline and priority of a request. Raises BadInput."""
    if timeout_us is priority is vllm_priority is None and _HEADERS.isdisjoint(headers):
        return _NO_WISHES
    deadline_s, per_step_s = _first_s(headers, _DEADLINES_MS), _first_s(headers, _PER_STEP_MS)
    if timeout_us:
        deadline_s = _number(timeout_us, "timeout") / 1e6
    order = _whole(headers.get(_PRIORITY, priority if priority is not None else 0), "priority")
    if vllm_priority is not None:
        order = -_whole(vllm_priority, "priority")
    return Wishes(deadline_s, per_step_s, order)


def _first_s(headers: Mapping[str, str], names: tuple[str, ...]) -> float | None:
    for name in names:
        if name in headers:
            return _number(headers[name], name) / 1e3
    return None


def _number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not 0 < number < float("inf"):
        raise BadInput(f"{name} must be a time above 0, not {value!r}.")
    return number


def _whole(value: Any, name: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"{name} must be an integer, not {value!r}.") from None
    if abs(number) > HIGHEST:
        raise BadInput(f"{name} lies between -{HIGHEST} and {HIGHEST}.")
    return number
