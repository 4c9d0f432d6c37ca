"""nos: YOLOS-small served by 1, 3, 5 and 7 pods on one A100-80GB, under time-slicing, MPS and MIG."""

from collections.abc import Mapping
from pathlib import Path

from cotenant.errors import DataError
from cotenant.prediction.calibration.anatomy import TYPICAL, Anatomy, Measured, told_apart
from cotenant.prediction.sharing.layout import TURNS
from validation.copies import request_ns
from validation.leaving_out import LeftOutRows
from validation.measures import absolute_error
from validation.reading import HINT, count, positive, read_table
from validation.result import Result, Row, Target

FILE = "sharing/a100_mechanisms_nos.csv"
SOURCE = "nebuly-ai/nos, demos/gpu-sharing-comparison, A100-80GB-PCIe, Apache-2.0"
TIME_SLICING, SIDE_BY_SIDE, SLICE = "time-slicing", "MPS", "MIG-1g.10gb"
WAYS = frozenset({TIME_SLICING, SIDE_BY_SIDE, SLICE})
FITTED_MODEL, FITTED_PODS = "yolos-small", 3
"""The cost of an interrupting switch was fitted on this row."""
ONE_MODEL = "One model on one GPU: that tenants which leave the device idle share their turns is not tested here."

_COLUMNS = ("model", "mechanism", "n_pods", "avg_inference_s")


Times = Mapping[str, Mapping[str, Mapping[int, float]]]
"""Seconds by model, mechanism and number of pods."""


def validate(data: Path) -> tuple[Result, ...]:
    """Turns, and what the same law says of processes side by side."""
    left_out = LeftOutRows()
    times = _read(data, left_out)
    turns = [row for model, ways in times.items() for row in _turns(model, ways)]
    side_by_side = [row for model, ways in times.items() for row in _side_by_side(model, ways)]
    if not turns and not side_by_side:
        raise DataError(f"{FILE} has no model with a time for one pod and for several.", hint=HINT)
    return (
        Result(
            data_set="nos",
            what="time-slicing, N tenants, solo given",
            source=SOURCE,
            split=f"The cost of a switch was fitted on {FITTED_MODEL} in {FITTED_PODS} pods; all else is held out.",
            quantity="slowdown",
            unit="",
            rows=tuple(turns),
            measures=(absolute_error(turns, of="slowdown", target=Target(high=3.0)),),
            stands_for="processes",
            notes=(ONE_MODEL,) if len(times) == 1 else (),
            left_out=left_out.sentences(),
        ),
        Result(
            data_set="nos",
            what="MPS, N tenants, solo times on the whole GPU and on a 1g slice given",
            source=SOURCE,
            split="No row was used for fitting.",
            quantity="slowdown",
            unit="",
            rows=tuple(side_by_side),
            measures=(absolute_error(side_by_side, of="slowdown"),),
        ),
    )


def _read(data: Path, left_out: LeftOutRows) -> Times:
    """What can be judged: every mechanism of every model with a time for one pod."""
    times: dict[str, dict[str, dict[int, float]]] = {}
    for row in read_table(data, FILE, _COLUMNS):
        seconds = positive(row["avg_inference_s"], FILE, "avg_inference_s")
        pods = count(row["n_pods"], FILE, "n_pods")
        times.setdefault(row["model"], {}).setdefault(row["mechanism"], {})[pods] = seconds
    for model, ways in times.items():
        for way in list(ways):
            if way not in WAYS:
                left_out.add("the mechanism isn't one that is compared", way, len(ways.pop(way)))
            elif 1 not in ways[way]:
                left_out.add("there is no time for one pod alone", f"{model}, {way}", len(ways.pop(way)))
        if SIDE_BY_SIDE in ways and SLICE not in ways:
            left_out.add(f"there is no time on {SLICE}", f"{model}, MPS", len(ways.pop(SIDE_BY_SIDE)) - 1)
    return times


def _busy(seconds: float) -> Anatomy:
    """A request that keeps the device busy from end to end: all that one time can tell."""
    return Anatomy(host=(0.0, 0.0), device=(0.0, seconds), fixed=TYPICAL[:2], sm_bound=TYPICAL[2:])


def _turns(model: str, ways: Mapping[str, Mapping[int, float]]) -> list[Row]:
    times = ways.get(TIME_SLICING)
    if times is None:
        return []
    trace = _busy(times[1]).trace(1, unit_ns=1e9, kernels=400)
    alone = request_ns([trace], slicing=TURNS)[0]
    rows = []
    for pods in sorted(set(times) - {1}):
        together = request_ns([trace] * pods, slicing=TURNS)
        rows.append(
            Row(
                case=f"{model}, {pods} pods",
                measured=times[pods] / times[1],
                simulated=sum(together) / pods / alone,
                baselines={"no interference": 1.0, "number of pods": float(pods)},
                held_out=(model, pods) != (FITTED_MODEL, FITTED_PODS),
            )
        )
    return rows


def _side_by_side(model: str, ways: Mapping[str, Mapping[int, float]]) -> list[Row]:
    times = ways.get(SIDE_BY_SIDE)
    if times is None:
        return []
    on_slice = Measured(batch=1, time=ways[SLICE][1], sm_share=1 / 7, dram_share=1 / 8)
    trace = told_apart([Measured(batch=1, time=times[1]), on_slice]).trace(1, unit_ns=1e9, kernels=400)
    alone = request_ns([trace])[0]
    return [
        Row(
            case=f"{model}, {pods} pods",
            measured=times[pods] / times[1],
            simulated=sum(request_ns([trace] * pods)) / pods / alone,
            baselines={"no interference": 1.0, "number of pods": float(pods)},
        )
        for pods in sorted(set(times) - {1})
    ]
