"""Studies around a plan: the measurements needed to plan for a real device, and the measurement of a plan."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.analyse.sharing import LATE, queries_needed
from cotenant.errors import CotenantError
from cotenant.paths import AnyPath
from cotenant.planning.inputs.tenants import runs_of
from cotenant.study.windows import LONG
from cotenant.tenancy.device_names import DeviceName
from cotenant.tenancy.plan_document import PlanDevice, PlanSeat
from cotenant.tenancy.run_command import FEWEST_BLOCKS, REAL_DEVICE, RunLength, mixes_setting, run_command, ways_setting
from cotenant.tenancy.sharing import Sharing, sharing_written
from cotenant.tenancy.ways import SCHEDULED
from cotenant.workloads.protocol import in_steps

if TYPE_CHECKING:
    from cotenant.planning.mixes.serving_plan import Measurement, PlannedDevice, SeatedTenant, ServingPlan
    from cotenant.tenancy.tenant_entry import TenantEntry


MOST_PAIRED = 8
"""Up to this many tenants all pairs are measured at once; beyond, `cotenant run --active` chooses."""


def write_study(tenants: AnyPath, devices: str | None, out: AnyPath) -> tuple[Path, ...]:
    """Write the study that a plan for a real device needs: every tenant alone at every batch, and pairs.

    For a CPU a second study measures every tenant at its own rate, because requests after a pause take longer there. It
    is a study of its own since open loads need longer windows than slowdowns do.

    Args:
        tenants: The tenants file.
        devices: As for the plan, None for those of the file; the study is for the first of them.
        out: The study's file.

    Returns:
        The files written.

    Raises:
        CotenantError: The tenants file or a device is wrong, or the study can't be written.
    """
    from cotenant.planning.inputs.devices import devices_of
    from cotenant.planning.inputs.tenants import devices_in, tenants_to_plan
    from cotenant.tenancy.document import write

    tenants = Path(tenants)
    out = Path(out)
    file = tenants_to_plan(tenants, devices=devices)
    devices = devices or devices_in(file, tenants)
    kind = devices_of(devices, file.prices, priced=False).kinds[0]
    study: dict[str, Any] = {
        "about": f"Measurements needed to plan for {tenants.name}: every tenant alone, and pairs.",
        "device": kind.member(0),
        "tenants": {},
        "mixes": ["solo"],
        "sharing": [kind.ways[0]],
    }
    for name, entry in file.tenants.items():
        for index, together in enumerate(entry.at_once or (1,)):
            study["tenants"][name if not index else f"{name}-b{together * entry.batch}"] = _entry(entry, together)
    names = list(file.tenants)
    if 1 < len(names) <= MOST_PAIRED:
        pairs = {f"{name}-{other}": [name, other] for index, name in enumerate(names) for other in names[index + 1 :]}
        study["mixes"].append({"groups": pairs})
    head = f"# For: cotenant plan {tenants} --devices {devices} --from RUN\n"
    _written(out, head + write(study))
    spaced = _spaced(file.tenants)
    if not DeviceName(kind.name).on_cpu or not spaced:
        return (out,)
    about = f"Every tenant of {tenants.name} alone at its own rate: requests after a pause."
    beside = out.with_name(f"{out.stem}-spaced{out.suffix}")
    _written(
        beside,
        head
        + write({"about": about, "device": kind.member(0), "tenants": spaced, "mixes": ["solo"], "budget": "2min"}),
    )
    return out, beside


def with_measurements(plan: "ServingPlan", entries: "Mapping[str, TenantEntry]", tenants: Path) -> "ServingPlan":
    """The plan with the commands of what is worth measuring: for all of it, and for tenants that it leaves out."""

    def measured(measurement: "Measurement | None") -> "Measurement | None":
        return None if measurement is None else measuring(measurement, entries, tenants, plan.devices)

    refusals = tuple(replace(refusal, measure=measured(refusal.measure)) for refusal in plan.refusals)
    return replace(plan, measure=measured(plan.measure), refusals=refusals)


def measuring(
    measurement: "Measurement",
    entries: "Mapping[str, TenantEntry]",
    tenants: Path,
    devices: "Sequence[PlannedDevice]" = (),
) -> "Measurement":
    """A measurement with the command that makes it: at the plan's rates, against its objectives.

    Args:
        measurement: What to measure.
        entries: The tenants by name.
        tenants: Their file.
        devices: Those of the plan.
    """
    names, mode = measurement.tenants, measurement.sharing.partition(" ")[0]
    seats = {seat.tenant: seat for device in devices for seat in device.tenants}
    needed_s = [
        queries_needed(objective.quantile, LATE) * measurement.replicas / load.rate_rps
        for name in names
        if (load := entries[name].load) is not None and load.rate_rps
        for objective in entries[name].slo
    ]
    blocks = max(FEWEST_BLOCKS, math.ceil(max(needed_s, default=0.0) / LONG.window_s))
    trials = 1 + len(set(names)) if len(names) > 1 else len(entries)
    length = RunLength(trials, blocks, LONG.window_s + LONG.lead_s)
    together = [mixes_setting([names]), ways_setting([_way(measurement, devices)])]
    settings = [*(together if len(names) > 1 else ["mixes=[solo]"]), *length.settings]
    for name in dict.fromkeys(names):
        settings += _as_planned(name, entries[name], seats[name], mode) if name in seats else []
    if measurement.replicas > 1 and (load := entries[names[0]].load) is not None and load.rate_rps:
        settings += _arriving(names[0], load.rate_rps / measurement.replicas, load.cv)
    device, would = measurement.kind, measurement.would
    if DeviceName(device).simulated:
        device = REAL_DEVICE
        would += f" (only a real {DeviceName(measurement.kind).model} can tell)"
    command = run_command(str(tenants), settings, device=device)
    return replace(measurement, would=would, minutes=length.minutes, command=command)


def _way(measurement: "Measurement", devices: "Sequence[PlannedDevice]") -> str:
    """The way to share as a run records it: with the shares of the plan, where the plan has this mix."""
    mode = measurement.sharing.partition(" ")[0]
    for device in devices if mode != SCHEDULED else ():  # there, shares are of the time
        shares = tuple(seat.share for seat in device.tenants if seat.share is not None)
        names = tuple(seat.tenant for seat in device.tenants)
        if (names, device.kind, device.sharing) == (measurement.tenants, measurement.kind, measurement.sharing):
            return str(Sharing(mode=mode, shares=shares if len(shares) == len(names) else ()))
    return mode


def _as_planned(name: str, entry: "TenantEntry", seat: "SeatedTenant", way: str) -> list[str]:
    """Overrides under which a study runs a tenant as its plan assumes: what runs together is a single request there."""
    key, together = f"tenants.{name}", seat.together or seat.at_once
    if way == SCHEDULED or in_steps(entry.spec()):
        return [f"{key}.at_once={seat.at_once}"]
    settings = [f"{key}.at_once=1"] if entry.most_at_once > 1 else []
    if together == 1 or not seat.rate_rps:
        return settings
    arriving = _arriving(name, seat.rate_rps / together, seat.cv / together**0.5)
    return [*settings, f"{key}.batch={together * entry.batch}", *arriving]


def _arriving(name: str, rate_rps: float, cv: float) -> list[str]:
    return [f"tenants.{name}.rate=null", f"tenants.{name}.load=gamma({rate_rps:.4g}, {cv:.3g})"]


def _spaced(tenants: "Mapping[str, TenantEntry]") -> dict[str, Any]:
    """Tenants at their own rates; not jobs."""
    return {
        name: {**_entry(entry, (entry.at_once or (1,))[0]), "load": f"poisson({entry.load.rate_rps:.6g})"}
        for name, entry in tenants.items()
        if entry.load is not None
    }


def _entry(entry: "TenantEntry", together: int) -> dict[str, Any]:
    software = {"software": entry.software[0]} if entry.software else {}
    return {**runs_of(entry), **software, "batch": together * entry.batch}


def planned_study(path: str | Path, device: str | None) -> dict[str, Any] | None:
    """A device of a plan as a study: its mix at the plan's rates, shared as planned; None if it isn't a plan.

    Args:
        path: A plan.yaml, or another file.
        device: Which of its devices; None: the only one.

    Raises:
        StudyError: It is a plan that can't be measured.
    """
    from cotenant.study.files import holds_plan
    from cotenant.tenancy.plan_document import read_plan

    file = Path(path)
    if file.suffix not in {".yaml", ".yml"} or not file.is_file() or not holds_plan(file):
        return None
    planned = read_plan(file).device(device, str(file))
    return study_of(planned, about=f"What {file.name} expects of {planned.name}, measured.")


def _written(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CotenantError(f"{path} can't be written: {error.strerror}", hint="choose another file") from None


# --- A device of a plan as a study: the same mix, rates and sharing


def study_of(planned: PlanDevice, *, about: str) -> dict[str, Any]:
    """A study for `cotenant run`.

    Args:
        planned: A device of a plan.
        about: The study's description.
    """
    study: dict[str, Any] = {
        "about": about,
        "device": planned.kind if DeviceName(planned.name).simulated else planned.name,
        "tenants": {tenant: _tenant(planned, seat) for tenant, seat in planned.tenants.items()},
        "mixes": ["solo"],
    }
    if len(planned.tenants) > 1:
        study["mixes"] = [{"groups": {"plan": list(planned.tenants)}}]
        study["sharing"] = [sharing_written(planned.way)]
    if planned.clock_mhz:
        study["settings"] = [{"clock_mhz": planned.clock_mhz}]
    return study


def _tenant(device: PlanDevice, seat: PlanSeat) -> dict[str, Any]:
    """Requests that are asked for as one are rarer and less bursty, with the wait for each other deducted."""
    together = device.asked_as_one(seat)
    runs = seat.runs.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    entry: dict[str, Any] = {**runs, "batch": together * seat.runs.batch}
    entry["at_once"] = seat.at_once if together == 1 else 1  # what is asked for as one isn't batched again
    if seat.software != "eager":
        entry["software"] = seat.software
    if seat.priority:
        entry["priority"] = seat.priority
    if device.sharing == SCHEDULED and seat.share is not None:
        entry["share"] = seat.share
    if seat.rate_rps <= 0:
        return {**entry, "load": "closed(1)"}
    burst, often = seat.cv / together**0.5, f"{seat.rate_rps / together:.6g}"
    entry["load"] = f"poisson({often})" if abs(burst - 1) < 1e-9 else f"gamma({often}, {burst:.4g})"
    limits = {
        label: expectation.limit_ms - (0.0 if label.startswith("tpot") else device.gathered_ms(seat))
        for label, expectation in seat.expected.items()
    }
    if limits:
        entry["slo"] = {label: f"{max(limit, 0.001):.6g}ms" for label, limit in limits.items()}
    return entry
