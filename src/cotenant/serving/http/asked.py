"""Deadline and priority, in all the forms clients use.

A deadline counts from the request's arrival and is bounded by the tenant's contract. Higher priorities go first among a
tenant's own requests; vLLM's order is the opposite and is negated.
"""

from collections.abc import Mapping
from typing import Any

from cotenant.errors import BadInput
from cotenant.serving.service import Wishes

_DEADLINES_MS = ("x-cotenant-deadline-ms", "x-llm-d-slo-ttft-ms", "x-slo-ttft-ms")
_PER_STEP_MS = ("x-llm-d-slo-tpot-ms", "x-slo-tpot-ms")
HIGHEST = 1_000_000


def wishes_of(
    headers: Mapping[str, str], *, timeout_us: Any = None, priority: Any = None, vllm_priority: Any = None
) -> Wishes:
    """Deadline and priority of a request. Raises BadInput."""
    deadline_s, per_step_s = _first_s(headers, _DEADLINES_MS), _first_s(headers, _PER_STEP_MS)
    if timeout_us:
        deadline_s = _number(timeout_us, "timeout") / 1e6
    wanted = _whole(headers.get("x-cotenant-priority", priority if priority is not None else 0), "priority")
    if vllm_priority is not None:
        wanted = -_whole(vllm_priority, "priority")
    return Wishes(deadline_s, per_step_s, wanted)


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
