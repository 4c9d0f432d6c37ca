"""Three tenants that overload a core: an encoder, a convolutional network and a decoder, as measured on a CPU.

Costs back to back 7.7, 31 and 108 ms, after a gap 12.5, 38 and 105 ms; batch curves and cuts from the same measurement.
The objectives are three times the spaced cost. Benchmarks and tests use them; they are data, not defaults.
"""

from collections.abc import Mapping

from cotenant.scheduling import BatchCurve, Contract, TenantCosts, chunk_cost
from cotenant.scheduling.simulation import Arrival, poisson

SPREAD = 0.137
"""p90 over p50, less 1, of log-normal noise of 10 %."""

COSTS: Mapping[str, TenantCosts] = {
    "bert": TenantCosts((chunk_cost(7.7e-3, spread=SPREAD, cold=12.5 / 7.7),), BatchCurve((1.0, 1.62, 2.35, 3.08))),
    "conv": TenantCosts((chunk_cost(31e-3 / 8, spread=SPREAD, cold=38 / 31),) * 8, BatchCurve((1.0, 1.63, 2.41, 3.19))),
    "gpt": TenantCosts(
        (chunk_cost(7.35e-3, spread=SPREAD),) * 2,
        step=chunk_cost(93.3e-3 / 23, spread=SPREAD),
        step_curve=BatchCurve((1.0, 1.52, 1.70, 1.83)),
        steps=23,
    ),
}
WORTH_S: Mapping[str, float] = {"bert": 12.5e-3, "conv": 38e-3, "gpt": 105e-3}
FRONT_S = 0.5e-3
"""Time taken by the front end."""
LOADS: Mapping[str, Mapping[str, float]] = {
    "S1": {"bert": 0.20, "conv": 0.20, "gpt": 0.20},
    "S2": {"bert": 0.15, "conv": 1.20, "gpt": 0.15},
    "S3": {"bert": 0.45, "conv": 0.45, "gpt": 0.45},
}


def contracts(shares: Mapping[str, float] | None = None) -> list[tuple[Contract, TenantCosts]]:
    """The three tenants with objectives of three times their spaced cost."""
    shares = shares or {}
    return [(Contract(name, 3 * WORTH_S[name] - FRONT_S, shares.get(name)), costs) for name, costs in COSTS.items()]


def arrivals(load: str, seed: int, duration_s: float = 25.0) -> list[Arrival]:
    """Poisson arrivals that demand the given fractions of the device."""
    return poisson({name: part / WORTH_S[name] for name, part in LOADS[load].items()}, duration_s, seed)
