"""Convert the solver's columns to devices with tenants."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cotenant.planning.mixes.judge import Judge, Laid
from cotenant.planning.mixes.plan import Kept, PlannedDevice, SeatedTenant
from cotenant.planning.mixes.predictor import Predictor
from cotenant.planning.mixes.tenants import Seat
from cotenant.planning.solver.problem import Column


def seated(judge: Judge, columns: Sequence[Column], closer: Predictor | None = None) -> tuple[PlannedDevice, ...]:
    """The devices of a plan, numbered by kind in column order, with the second predictor's figures if any."""
    used = [0] * len(judge.kinds)
    devices = []
    for column in columns:
        way = judge.ways[column.option]
        laid = judge.lay_out(column.option, np.array([column.members], np.int64))
        if closer is not None:
            laid = replace(laid, predicted=closer(laid.mixes))
        first, last = used[way.kind], used[way.kind] + column.devices - 1
        name = judge.kinds[way.kind].member(first)
        name += f" to {judge.kinds[way.kind].member(last)}" if last > first else ""
        devices.append(_device(judge, column, laid, name))
        used[way.kind] += column.devices
    return tuple(devices)


def _device(judge: Judge, column: Column, laid: Laid, name: str) -> PlannedDevice:
    way = judge.ways[column.option]
    kind = judge.kinds[way.kind]
    seats = [seat for unit in column.members for seat in judge.units[unit].seats]
    tenants = []
    for place, seat in enumerate(seats):
        assert laid.mixes.tenants[0, place] == seat.tenant
        tenants.append(_tenant(judge, laid, place, seat))
    alone = len(tenants) == 1 and way.sharing != "mig"
    return PlannedDevice(
        name=name,
        kind=kind.name,
        title=kind.title,
        sharing="alone" if alone else way.mode,
        tenants=tuple(tenants),
        devices=column.devices,
        price_per_h=kind.price_per_h * column.devices,
        memory_bytes=kind.memory_bytes,
        busy=float(laid.predicted.busy[0]),
        bandwidth=float(laid.predicted.bandwidth[0]),
        power_w=float(laid.predicted.power_w[0]) * column.devices,
        basis=laid.predicted.basis[0],
        clock_mhz=way.clock_mhz,
        power_limit_w=next((one.full_w for one in kind.clocks if one.mhz == way.clock_mhz), None),
    )


def _tenant(judge: Judge, laid: Laid, place: int, seat: Seat) -> SeatedTenant:
    tenant, predicted = judge.tenants[seat.tenant], laid.predicted
    share: float | str | None = None
    held = float(laid.mixes.share[0, place])
    if laid.mixes.sharing == "mig":
        mig = next(kind.mig for kind in judge.kinds if kind.name == laid.mixes.device)
        assert mig is not None
        share = mig.profiles[int(held)].name if np.isfinite(held) else None
    elif np.isfinite(held):
        share = held
    return SeatedTenant(
        tenant=tenant.name,
        replica=seat.replica,
        replicas=seat.of,
        rate_rps=seat.rate_rps,
        at_once=int(laid.mixes.batch[0, place]),
        together=None if predicted.together is None else int(predicted.together[0, place]),
        doubt="" if predicted.doubts is None else predicted.doubts[0][place],
        software=tenant.software_on(laid.mixes.device),
        share=share,
        priority=tenant.priority,
        cv=tenant.cv,
        isolated=tenant.isolation != "any",
        memory_bytes=int(predicted.memory_bytes[0, place]),
        slowdown=(
            float(predicted.slowdown.lower[0, place]),
            float(predicted.slowdown.estimate[0, place]),
            float(predicted.slowdown.upper[0, place]),
        ),
        kept=tuple(
            Kept(
                objective.label,
                objective.limit_ms,
                float(predicted.latency_ms.lower[0, place, number]),
                float(predicted.latency_ms.estimate[0, place, number]),
                float(predicted.latency_ms.upper[0, place, number]),
            )
            for number, objective in enumerate(tenant.objectives)
        ),
    )
