"""`plan` for serving tenants: from a file with rates and objectives to devices, cost and configuration."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant import opening
from cotenant.errors import CotenantError, ImpossibleObjectives
from cotenant.paths import AnyPath, Runs, run_paths
from cotenant.text import amount

if TYPE_CHECKING:
    from cotenant.planning.exports.model import Model
    from cotenant.planning.mixes.devices import DeviceKind
    from cotenant.planning.mixes.judge import Minimise
    from cotenant.planning.mixes.moves import Move
    from cotenant.planning.mixes.plan import Measurement, ServingPlan
    from cotenant.study.model import Study
    from cotenant.tenancy.plan import Plan

SECONDS, RISK = 30.0, 0.1


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan and the file it is for."""

    plan: "ServingPlan"
    source: str
    devices: str
    models: "Mapping[str, Model]"
    """By tenant."""
    runs: tuple[str, ...] = ()
    """Evidence besides the simulation."""


def plan_tenants(
    tenants: AnyPath,
    devices: str | None = None,
    *,
    minimise: "Minimise" = "cost",
    seconds: float = SECONDS,
    risk: float = RISK,
    prices: Mapping[str, float] | None = None,
    runs: Runs = (),
    power_budget_w: float | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Planned:
    """Find the best plan that keeps every objective at the upper end of the prediction.

    Args:
        tenants: A YAML file.
        devices: Available devices: `sim:a100-sxm4-80gb*4, sim:t4*2`, `cuda:0,1`, `cpu`; default: those of the file.
        minimise: `cost`, `devices`, `energy` or `latency`. Where no device has a price, `cost` counts devices.
        seconds: Time for the search, not counting predictions.
        risk: How often an objective may be missed, given the prediction's validated error.
        prices: Dollars per hour by kind of device; takes precedence over the file and the table.
        runs: Runs whose measurements correct the predictions, and served traffic, whose rates replace the file's;
            tenants are matched by name.
        power_budget_w: Limit on the power of all devices in any state: clocks are lowered until it holds.
        progress: Called with progress messages.

    Raises:
        ImpossibleObjectives: No device can keep a tenant's objectives.
        CotenantError: The file is wrong, or a device or price is unknown.
    """
    from cotenant.planning.inputs.devices import devices_of
    from cotenant.planning.inputs.predictors import Evidence, predictors_for
    from cotenant.planning.inputs.tenants import devices_in, model_of, tenants_to_plan
    from cotenant.planning.inputs.traffic import as_served, is_served
    from cotenant.planning.mixes.budget import within_budget
    from cotenant.planning.mixes.make import Ask, Impossible, make_plan
    from cotenant.tenancy.tenant_entry import demands

    tenants = Path(tenants)
    if not 0 < risk < 0.5:
        raise CotenantError(f"the risk must be between 0 and 0.5, not {risk:g}", hint="e.g. --risk 0.05")
    file, given = tenants_to_plan(tenants), run_paths(runs)
    devices = devices or devices_in(file, tenants)
    served = [run for run in given if is_served(run)]
    costs: Mapping[str, float] = {}
    learnt_from = [run for run in given if run not in served]
    if served:
        came = as_served(file, served)
        file, costs = came.file, came.costs_s
        progress(came.sentence)
    clocked = minimise == "energy" or power_budget_w is not None
    own = {**file.prices, **(prices or {})}
    there = devices_of(devices, own, priced=minimise == "cost", clocked=clocked)
    if minimise == "cost" and not any(kind.price_per_h for kind in there.kinds):
        minimise = "devices"
    for line in demands(file.tenants):
        progress(line)
    progress(f"describing {amount(len(file.tenants), 'tenant')} on {amount(len(there.kinds), 'kind')} of device")
    evidence = Evidence(learnt_from, served, costs)
    wanted, rough, closer = predictors_for(
        file.tenants, there, evidence, risk=risk, source=str(tenants), progress=progress
    )
    ask = Ask(minimise=minimise, seconds=seconds, risk=risk)

    def make(kinds: "Sequence[DeviceKind]") -> "ServingPlan":
        return make_plan(wanted, kinds, rough, clock=time.monotonic, ask=ask, closer=closer, progress=progress)

    try:
        found = make(there.kinds) if power_budget_w is None else within_budget(make, there.kinds, power_budget_w)
    except Impossible as error:
        hint = _could(error.tenants, file, {kind.name for kind in there.kinds}, risk) if there.gpus else error.hint
        raise ImpossibleObjectives(error.message, hint=hint) from None
    if found.measure is not None:
        found = replace(found, measure=replace(found.measure, command=_command(found.measure, tenants, devices)))
    models = {name: model_of(entry) for name, entry in file.tenants.items()}
    return Planned(found, str(tenants), devices, models, tuple(map(str, learnt_from)))


def _command(measurement: "Measurement", tenants: Path, devices: str) -> str:
    """The command that measures a mix: the study of the tenants, limited to this mix and this way to share."""
    study = f"cotenant plan {tenants} --devices '{devices}' --study next.yaml; cotenant run next.yaml"
    if len(measurement.tenants) < 2:
        return study
    names, way = ", ".join(measurement.tenants), measurement.sharing.partition(" ")[0]
    return f"{study} --set 'mixes=[solo, {{groups: {{next: [{names}]}}}}]' --set 'sharing=[{way}]'"


def _could(names: Sequence[str], file: "Study", tried: set[str], risk: float) -> str:
    """The cheapest device of the price table that could serve these tenants."""
    from cotenant.planning.inputs.devices import devices_of
    from cotenant.planning.mixes.prices import PRICES
    from cotenant.planning.mixes.replicas import hopeless
    from cotenant.planning.mixes.tenants import planned
    from cotenant.planning.predictors.closed_form import ClosedForm
    from cotenant.planning.predictors.profiles import Simulation
    from cotenant.planning.predictors.spans import with_spans

    tenants = [tenant for tenant in planned(file.tenants) if tenant.name in names]
    others = [kind for kind in sorted(PRICES, key=lambda name: PRICES[name].usd_per_h) if f"sim:{kind}" not in tried]
    for split in (False, True):
        for kind in others:
            there = devices_of(f"sim:{kind}*8", {}, priced=True)
            rough = ClosedForm(Simulation(tenants, file.tenants, there.gpus, risk=risk))
            wanted = with_spans(tenants, there.kinds, rough) if split else tenants
            if split and not any(tenant.spans for tenant in wanted):
                continue
            if not hopeless(wanted, there.kinds, rough, range(len(wanted))):
                several = " (split over several)" if split else ""
                return f"sim:{kind}{several} could: add it to --devices; or relax the objective"
    return "no other GPU with a list price could either: relax the objective, or choose a smaller model or software"


@dataclass(frozen=True, slots=True)
class WrittenExport:
    """An export on disk."""

    paths: tuple[Path, ...]
    notes: tuple[str, ...]
    """What the target can't express, and what people have to provide."""


def export_plan(planned: Planned, target: str, folder: AnyPath) -> WrittenExport:
    """Write a plan as the configuration of another tool: a folder with a README and, where it applies, `plan.sh`.

    Args:
        planned: The plan.
        target: `cotenant`; `vllm`, `triton` or `vllm,triton` (each tenant goes to the first that can run it), and what
            keeps them running, `compose`, `systemd` or `llama-swap`; `shell`; `kubernetes`, `kubernetes-device-plugin`,
            `kubernetes-hami` or `kubernetes-kai`; `ray`.
        folder: Output folder; created if missing.

    Raises:
        CotenantError: The target can't express the plan, there is no such target, the plan in the folder is up, or the
            folder can't be written.
    """
    from cotenant.planning.exports.model import exported
    from cotenant.planning.exports.targets import export

    folder = Path(folder)
    if any(folder.glob(".state-*")):
        raise CotenantError(f"the plan in {folder} is up", hint=f"run {folder}/plan.sh down, or choose another folder")
    made = export(exported(planned.plan, planned.models, str(folder.resolve())), target)
    written = []
    for name, text in made.files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CotenantError(
                f"{path} can't be written: {opening.why(error)}", hint="choose another folder"
            ) from None
        if name.endswith(".sh"):
            path.chmod(0o755)
        written.append(path)
    return WrittenExport(tuple(written), made.notes)


def write_plan_page(planned: Planned, path: AnyPath) -> None:
    """Write the plan as an HTML page that needs no network.

    Raises:
        CotenantError: The file can't be written.
    """
    from cotenant.reporting.html.plan_page import page

    path = Path(path)
    try:
        path.write_text(page(planned.plan, source=planned.source), encoding="utf-8")
    except OSError as error:
        raise CotenantError(f"{path} can't be written: {opening.why(error)}", hint="choose another file") from None


def moves_from(planned: Planned, old: AnyPath) -> "tuple[Move, ...]":
    """The moves from an older plan to this one, the cheapest first.

    Args:
        planned: The new plan.
        old: The older one's plan.yaml.

    Raises:
        CotenantError: It can't be read or isn't a plan.
    """
    from cotenant.planning.mixes.moves import moves
    from cotenant.tenancy.plan import read_plan

    old = Path(old)
    return moves(read_plan(old), _document(planned))


def write_plan(planned: Planned, path: AnyPath) -> None:
    """Write plan.yaml, for `--check` and `cotenant run`."""
    path = Path(path)
    head = f"# {planned.source} on {planned.devices}; written by `cotenant plan`.\n"
    try:
        path.write_text(head + _document(planned).to_yaml(), encoding="utf-8")
    except OSError as error:
        raise CotenantError(f"{path} can't be written: {opening.why(error)}", hint="choose another file") from None


def _document(planned: Planned) -> "Plan":
    from cotenant.planning.mixes.plan import document_of

    runs = {name: model.runs for name, model in planned.models.items() if model.runs is not None}
    return document_of(planned.plan, runs, planned.runs)


def read_planned(path: AnyPath) -> "Planned":
    """A plan that was written before, to export it.

    Args:
        path: A plan.yaml.

    Raises:
        CotenantError: It can't be read or isn't a plan, or a device is unknown.
    """
    from cotenant.planning.inputs.devices import devices_of
    from cotenant.planning.inputs.tenants import model_of
    from cotenant.planning.mixes.written import from_document
    from cotenant.tenancy.plan import read_plan

    path = Path(path)
    plan = read_plan(path)
    names = dict.fromkeys(device.kind for device in plan.devices)
    kinds = {kind.name: kind for name in names for kind in devices_of(name, {}, priced=False).kinds}
    models = {str(seat.tenant): model_of(seat.entry) for _, _, seat in plan.seats()}
    return Planned(from_document(plan, kinds, str(path)), str(path), ", ".join(names), models)
