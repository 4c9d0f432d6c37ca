"""`plan --check` on a real device: the mix under simulated arrivals, with measured times."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cotenant.api.planning.check import interval_over_seeds

if TYPE_CHECKING:
    from cotenant.api.planning.measured import Measured

LEAST_REQUESTS, LONGEST_S = 600, 120.0


def measured_device(document: Mapping[str, Any], device: Mapping[str, Any], source: str) -> "Measured":
    """The predictor that a plan's device was planned with.

    Raises:
        CotenantError: The runs behind the plan are gone.
    """
    from cotenant.api.planning.solos import measured_on
    from cotenant.api.planning.written import entry_of
    from cotenant.api.prediction_inputs import place_at
    from cotenant.errors import StudyError
    from cotenant.planning.tenants_file import TenantsFile

    runs = [Path(run) for run in document.get("from") or ()]
    gone = [run for run in runs if not run.exists()]
    if gone or not runs:
        what = f"{gone[0]}, on which the plan is based, is gone" if gone else f"{source} names no run behind it"
        raise StudyError(what, hint="plan again with --from RUN --out plan.yaml")
    entries = {name: entry_of(name, seat, source) for name, seat in device["tenants"].items()}
    file = TenantsFile.model_construct(tenants=entries, prices={})
    return measured_on(place_at(str(device["name"])), file, runs, risk=float(document.get("risk", 0.1)), source=source)[
        0
    ]


def attainments(
    measured: "Measured", device: Mapping[str, Any], seeds: Iterable[int]
) -> dict[str, tuple[float, float, float, float, int]]:
    """By tenant: share of requests within the objective with its interval, p99 in ms, and number of requests.

    The interval is that of the share in the long run: it covers the uncertainty of the measured times (at the plan's
    risk) and what the seeds leave open. A short run may lie outside.
    """
    seats = list(device["tenants"].items())
    asked = [(number, int(seat["batch"]), float(seat.get("rate_rps", 0))) for number, (_, seat) in enumerate(seats)]
    seconds = min(LEAST_REQUESTS / min((rate for *_, rate in asked if rate > 0), default=1.0), LONGEST_S)
    cvs = [float(seat.get("cv", 1.0)) for _, seat in seats]
    parts: dict[str, list[list[float]]] = {name: [[], [], []] for name, _ in seats}
    tails: dict[str, list[float]] = {name: [] for name, _ in seats}
    counts = dict.fromkeys(parts, 0)
    for seed in seeds:
        for end in range(3):
            times = measured.simulate(device["sharing"], asked, cvs, end=end, seed=seed, seconds=seconds)
            for place, (name, seat) in enumerate(seats):
                limit = _limit_s(seat)
                if limit is None:
                    continue
                parts[name][end].append(float((times[place] <= limit).mean()))
                if end == 1:
                    tails[name] += times[place].tolist()
                    counts[name] += times[place].size
    return {
        name: (
            float(np.mean(ends[1])),
            interval_over_seeds(ends[2], counts[name])[0],
            interval_over_seeds(ends[0], counts[name])[1],
            float(np.quantile(tails[name], 0.99)) * 1e3,
            counts[name],
        )
        for name, ends in parts.items()
        if ends[1]
    }


def _limit_s(seat: Mapping[str, Any]) -> float | None:
    """The limit of a request; for a generating tenant, of its first and all other outputs."""
    expected: Mapping[str, Mapping[str, float]] = seat.get("expected") or {}
    whole = [float(one["limit_ms"]) for label, one in expected.items() if label.startswith("p")]
    if whole:
        return min(whole) / 1e3
    first = [float(one["limit_ms"]) for label, one in expected.items() if label.startswith("ttft")]
    each = [float(one["limit_ms"]) for label, one in expected.items() if label.startswith("tpot")]
    if not first and not each:
        return None
    return (sum(first[:1]) + sum(each[:1]) * max(int(seat["runs"].get("tokens") or 1) - 1, 0)) / 1e3
