"""Equal tenants beside each other on the engine: their time per request."""

from cotenant.prediction.sharing.simulate import Player, simulate
from cotenant.prediction.sharing.trace import Trace
from cotenant.prediction.sharing.turns import Slicing

HOST_SPREAD = 0.03
"""Relative spread of the host's part, so that copies don't run in step."""
_WARM = 4
"""Requests of each tenant that are not counted."""


def request_ns(traces: list[Trace], *, requests: int = 16, slicing: Slicing | None = None) -> list[float]:
    """Time per request of each tenant in a closed loop, all of them on together.

    Args:
        traces: What each tenant runs.
        requests: How many the slowest tenant completes at least, were it alone, besides those that warm up.
        slicing: Turns instead of side by side.
    """
    alone = max(max(trace.device_ns, trace.host_ns) for trace in traces)
    window = alone * (requests + _WARM) * len(traces)
    while True:
        outcome = simulate(
            [Player(trace) for trace in traces],
            window_end_ns=window,
            deadline_ns=50 * window,
            slicing=slicing,
            host_spread=HOST_SPREAD,
            seed=1,
        )
        if all(one.done.size > _WARM for one in outcome.requests):
            return [float((one.done[-1] - one.done[_WARM - 1]) / (one.done.size - _WARM)) for one in outcome.requests]
        window *= 2  # one of them hardly gets on beside the others
