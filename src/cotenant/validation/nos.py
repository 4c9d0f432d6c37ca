"""nos: YOLOS-small served by 1, 3, 5 and 7 pods on one A100-80GB, under time-slicing, MPS and MIG."""

from collections.abc import Mapping
from pathlib import Path

from cotenant.devices.simulated.anatomy import TYPICAL, Anatomy, Measured, told_apart
from cotenant.devices.simulated.sharing import TURNS
from cotenant.validation.copies import request_ns
from cotenant.validation.measures import absolute_error
from cotenant.validation.reading import number, read_table
from cotenant.validation.result import Result, Row, Target

FILE = "sharing/a100_mechanisms_nos.csv"
SOURCE = "nebuly-ai/nos, demos/gpu-sharing-comparison, A100-80GB-PCIe, Apache-2.0"
SLICE = "MIG-1g.10gb"
FITTED_PODS = 3
"""The cost of an interrupting switch was fitted on this row."""

_COLUMNS = ("mechanism", "n_pods", "avg_inference_s")


def validate(data: Path) -> tuple[Result, ...]:
    """Turns, and what the same law says of processes side by side."""
    times: dict[str, dict[int, float]] = {}
    for row in read_table(data, FILE, _COLUMNS):
        seconds = number(row["avg_inference_s"], FILE, "avg_inference_s")
        times.setdefault(row["mechanism"], {})[int(row["n_pods"])] = seconds
    return (_turns(times["time-slicing"]), _side_by_side(times["MPS"], times[SLICE][1]))


def _busy(seconds: float) -> Anatomy:
    """A request that keeps the device busy from end to end: all that one time can tell."""
    return Anatomy(host=(0.0, 0.0), device=(0.0, seconds), fixed=TYPICAL[:2], sm_bound=TYPICAL[2:])


def _turns(times: Mapping[int, float]) -> Result:
    trace = _busy(times[1]).trace(1, unit_ns=1e9, kernels=400)
    alone = request_ns([trace], slicing=TURNS)[0]
    rows = []
    for pods in sorted(set(times) - {1}):
        together = request_ns([trace] * pods, slicing=TURNS)
        rows.append(
            Row(
                case=f"yolos-small, {pods} pods",
                measured=times[pods] / times[1],
                simulated=sum(together) / pods / alone,
                baselines={"no interference": 1.0, "number of pods": float(pods)},
                held_out=pods != FITTED_PODS,
            )
        )
    return Result(
        data_set="nos",
        what="time-slicing, N tenants, solo given",
        source=SOURCE,
        split=f"The cost of a switch was fitted on {FITTED_PODS} pods; 5 and 7 pods are held out.",
        quantity="slowdown",
        unit="",
        rows=tuple(rows),
        measures=(absolute_error(rows, of="slowdown", target=Target(high=3.0)),),
        stands_for="processes",
        notes=("One model on one GPU: that tenants which leave the device idle share their turns is not tested here.",),
    )


def _side_by_side(times: Mapping[int, float], on_slice: float) -> Result:
    given = [Measured(batch=1, time=times[1]), Measured(batch=1, time=on_slice, sm_share=1 / 7, dram_share=1 / 8)]
    trace = told_apart(given).trace(1, unit_ns=1e9, kernels=400)
    alone = request_ns([trace])[0]
    rows = [
        Row(
            case=f"yolos-small, {pods} pods",
            measured=times[pods] / times[1],
            simulated=sum(request_ns([trace] * pods)) / pods / alone,
            baselines={"no interference": 1.0, "number of pods": float(pods)},
        )
        for pods in sorted(set(times) - {1})
    ]
    return Result(
        data_set="nos",
        what="MPS, N tenants, solo times on the whole GPU and on a 1g slice given",
        source=SOURCE,
        split="No row was used for fitting.",
        quantity="slowdown",
        unit="",
        rows=tuple(rows),
        measures=(absolute_error(rows, of="slowdown"),),
    )
