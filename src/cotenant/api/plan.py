"""`plan`: tenants with rates and objectives on devices, at what cost; and jobs on the measured GPUs of a fleet."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from cotenant.analyse.tabular import plain
from cotenant.api.handles import one_line, paragraphs, public, written
from cotenant.api.progress_output import Say, saying
from cotenant.errors import CotenantError, DatabaseError, ImpossibleObjectives
from cotenant.paths import AnyPath, Runs, run_paths
from cotenant.planning.mixes.serving_plan import ServingPlan
from cotenant.text import amount

if TYPE_CHECKING:
    from cotenant.planning.admission import AdmissionChange
    from cotenant.planning.assignment import JobPlan, Objective
    from cotenant.planning.check import Checked
    from cotenant.planning.comparison import PolicyComparison
    from cotenant.planning.exports.model import Model
    from cotenant.planning.gpu_fleet import GpuFleet
    from cotenant.planning.mixes.judge import Minimise
    from cotenant.planning.mixes.kinds import DeviceKind
    from cotenant.planning.mixes.moves import PlanMove
    from cotenant.planning.mixes.serving_plan import Measurement, Refusal
    from cotenant.study.model import Study
    from cotenant.tenancy.plan_document import PlanDocument

SECONDS, RISK = 30.0, 0.1
MOST_NAMED = 5
FIRST_SEED = 1
"""Draws from 1000 on were used to tune our policy's prices; these were not."""


@public
@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Plan(ServingPlan):
    """Which tenants go on which device, how they share it, what it costs, and what is promised to each.

    `plan.devices` holds the placement, `plan.cost_per_h` its price, `plan.keeps_all` says whether every objective is
    kept.
    """

    source: str
    """The tenants file, or the plan.yaml that was read."""
    available: str
    """The devices to choose from."""
    models: "Mapping[str, Model]"
    """By tenant."""
    runs: tuple[str, ...] = ()
    """Evidence besides the simulation."""

    @classmethod
    def of(
        cls,
        plan: ServingPlan,
        *,
        source: str,
        available: str,
        models: "Mapping[str, Model]",
        runs: tuple[str, ...] = (),
    ) -> Self:
        """A result as a handle."""
        known = {field.name: getattr(plan, field.name) for field in fields(ServingPlan)}
        return cls(**known, source=source, available=available, models=models, runs=runs)

    @classmethod
    def read(cls, path: AnyPath) -> Self:
        """A plan that was written before.

        Args:
            path: A plan.yaml.

        Raises:
            CotenantError: It can't be read or isn't a plan, or a device is unknown.
        """
        from cotenant.planning.inputs.devices import devices_of
        from cotenant.planning.inputs.tenants import model_of
        from cotenant.planning.mixes.written import from_document
        from cotenant.tenancy.plan_document import read_plan

        path = Path(path)
        plan = read_plan(path)
        names = dict.fromkeys(device.kind for device in plan.devices)
        kinds = {kind.name: kind for name in names for kind in devices_of(name, {}, priced=False).kinds}
        models = {str(seat.tenant): model_of(seat.entry) for _, _, seat in plan.seats()}
        whole = from_document(plan, kinds, str(path))
        return cls.of(whole, source=str(path), available=", ".join(names), models=models)

    def check(self) -> "Checked":
        """Simulate the plan's arrivals with the scheduler that will serve it: which objectives are kept?"""
        from tempfile import TemporaryDirectory

        from cotenant.planning.check import check_plan

        with TemporaryDirectory(prefix="cotenant-") as folder:
            return check_plan(self.write(Path(folder) / "plan.yaml"))

    def write(self, path: AnyPath) -> Path:
        """Write plan.yaml, for `--check`, `cotenant run` and `cotenant serve`. Raises CotenantError if it can't."""
        head = f"# {self.source} on {self.available}; written by `cotenant plan`.\n"
        return written(path, head + self.document().to_yaml())

    def page(self, path: AnyPath) -> Path:
        """Write the plan as an HTML page that needs no network. Raises CotenantError if it can't be written."""
        from cotenant.reporting.results.planned import plan_page

        return written(path, plan_page(self, source=self.source))

    def export(self, target: str, folder: AnyPath) -> "WrittenExport":
        """Write the plan as the configuration of another tool: a folder with a README and, where it applies, `plan.sh`.

        Args:
            target: `cotenant`; `vllm`, `triton` or `vllm,triton` (each tenant goes to the first that can run it), and
                what keeps them running, `compose`, `systemd` or `llama-swap`; `shell`; `kubernetes`,
                `kubernetes-device-plugin`, `kubernetes-hami` or `kubernetes-kai`; `ray`.
            folder: Output folder; created if missing.

        Raises:
            CotenantError: The target can't express the plan, there is no such target, the plan in the folder is up, or
                the folder can't be written.
        """
        from cotenant.planning.exports.model import exported
        from cotenant.planning.exports.targets import export

        folder = Path(folder)
        if any(folder.glob(".state-*")):
            hint = f"run {folder}/plan.sh down, or choose another folder"
            raise CotenantError(f"the plan in {folder} is up", hint=hint)
        made = export(exported(self, self.models, str(folder.resolve())), target)
        paths = []
        for name, text in made.files.items():
            paths.append(written(folder / name, text, other="folder"))
            if name.endswith(".sh"):
                paths[-1].chmod(0o755)
        return WrittenExport(tuple(paths), made.notes)

    def moves_from(self, old: "AnyPath | Plan") -> "tuple[PlanMove, ...]":
        """The moves that lead from an older plan (a plan.yaml, or a handle) to the new plan, the cheapest first.

        Raises:
            CotenantError: It can't be read or isn't a plan.
        """
        from cotenant.planning.mixes.moves import moves
        from cotenant.tenancy.plan_document import read_plan

        return moves(old.document() if isinstance(old, Plan) else read_plan(Path(old)), self.document())

    def document(self) -> "PlanDocument":
        """The plan as plan.yaml holds it."""
        from cotenant.planning.mixes.serving_plan import document_of

        runs = {name: model.runs for name, model in self.models.items() if model.runs is not None}
        return document_of(self, runs, self.runs)

    def to_json(self) -> dict[str, Any]:
        """As `plan --json` prints it."""
        return {field.name: plain(getattr(self, field.name)) for field in fields(ServingPlan)}

    def sentences(self) -> list[str]:
        """The outcome, and each device with its tenants."""
        cost = f", ${self.cost_per_h:.2f}/h" if self.cost_per_h else ""
        kept = "every objective is kept" if self.keeps_all else "not every objective can be kept"
        count = sum(device.devices for device in self.devices)
        lines = [f"{amount(count, 'device')}{cost}: {kept}."]
        for device in self.devices:
            names = ", ".join(tenant.name for tenant in device.tenants)
            lines.append(f"{device.name} ({device.title}): {names}; {device.sharing}.")
        return lines

    def __repr__(self) -> str:
        return one_line("Plan", self.source, self.sentences()[0])

    def _repr_html_(self) -> str:
        return paragraphs(self.sentences())


@dataclass(frozen=True, slots=True)
class WrittenExport:
    """An export on disk."""

    paths: tuple[Path, ...]
    notes: tuple[str, ...]
    """What the target can't express, and what people have to provide."""


def plan(
    tenants: AnyPath,
    devices: str | None = None,
    *,
    minimise: "Minimise" = "cost",
    seconds: float = SECONDS,
    risk: float = RISK,
    prices: Mapping[str, float] | None = None,
    runs: Runs = (),
    power_budget_w: float | None = None,
    overrides: Sequence[str] = (),
    say: Say | None = None,
    quiet: bool = False,
) -> Plan:
    """Find the best plan that keeps every objective at the upper end of the prediction.

    Args:
        tenants: A YAML file.
        devices: Available devices: `sim:a100-sxm4-80gb*4, sim:t4*2`, `cuda:0,1`, `cpu`; default: those of the file.
        minimise: `cost`, `devices`, `energy` or `latency`. Where no device has a price, `cost` counts devices.
        seconds: Time for the search. Describing tenants counts, but leaves at least a fifth of it for the search.
        risk: How often an objective may be missed, given the prediction's validated error.
        prices: Dollars per hour by kind of device; takes precedence over the file and the table.
        runs: Runs whose measurements correct the predictions, and served traffic, whose rates replace the file's;
            tenants are matched by name.
        power_budget_w: Limit on the power of all devices in any state: clocks are lowered until it holds.
        overrides: Changes of the file, `tenants.embed.rate=20/s`.
        say: Called with progress messages; default: they go to stderr.
        quiet: No progress messages.

    Raises:
        ImpossibleObjectives: No device can keep a tenant's objectives.
        CotenantError: The file is wrong, or a device or price is unknown.
    """
    from cotenant.planning.inputs.devices import devices_of
    from cotenant.planning.inputs.predictors import PlanEvidence, predictors_for
    from cotenant.planning.inputs.tenants import as_served, devices_in, is_served, model_of, tenants_to_plan
    from cotenant.planning.mixes.budget import within_budget
    from cotenant.planning.mixes.make import Ask, Impossible, make_plan
    from cotenant.tenancy.tenant_entry import demands

    began = time.monotonic()
    tenants, progress = Path(tenants), saying(say, quiet=quiet)
    if not 0 < risk < 0.5:
        raise CotenantError(f"the risk must be between 0 and 0.5, not {risk:g}", hint="e.g. --risk 0.05")
    file, given = tenants_to_plan(tenants, overrides), run_paths(runs)
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
    evidence = PlanEvidence(learnt_from, served, costs)
    wanted, rough, closer = predictors_for(
        file.tenants, there, evidence, risk=risk, source=str(tenants), progress=progress
    )
    left = max(seconds - (time.monotonic() - began), seconds / 5)
    ask = Ask(minimise=minimise, seconds=left, risk=risk)

    def make(kinds: "Sequence[DeviceKind]") -> "ServingPlan":
        return make_plan(wanted, kinds, rough, clock=time.monotonic, ask=ask, closer=closer, progress=progress)

    advisor = _Advisor(tenants, devices, file, tuple(overrides), minimise, risk, seconds) if there.gpus else None
    try:
        found = make(there.kinds) if power_budget_w is None else within_budget(make, there.kinds, power_budget_w)
    except Impossible as error:
        hint = error.hint if advisor is None or given else advisor.hint(error.tenants, {k.name for k in there.kinds})
        raise ImpossibleObjectives(error.message, hint=hint) from None
    if found.refusals and advisor is not None and not given:
        progress("looking for the change that admits what is left out")
        found = replace(found, refusals=advisor.explained(found.refusals))
    if found.measure is not None:
        found = replace(found, measure=replace(found.measure, command=_command(found.measure, tenants, devices)))
    models = {name: model_of(entry) for name, entry in file.tenants.items()}
    rests_on = tuple(map(str, learnt_from))
    return Plan.of(found, source=str(tenants), available=devices, models=models, runs=rests_on)


def _command(measurement: "Measurement", tenants: Path, devices: str) -> str:
    """The command that measures a mix: the study of the tenants, limited to this mix and this way to share."""
    study = f"cotenant plan {tenants} --devices '{devices}' --study next.yaml; cotenant run next.yaml"
    if len(measurement.tenants) < 2:
        return study
    names, way = ", ".join(measurement.tenants), measurement.sharing.partition(" ")[0]
    return f"{study} --set 'mixes=[solo, {{groups: {{next: [{names}]}}}}]' --set 'sharing=[{way}]'"


@dataclass(frozen=True, slots=True)
class _Advisor:
    """Plans again with single changes, to find those that admit tenants that were refused."""

    tenants: Path
    devices: str
    file: "Study"
    overrides: tuple[str, ...]
    minimise: "Minimise"
    risk: float
    seconds: float

    def hint(self, names: Sequence[str], tried: set[str]) -> str | None:
        """A change for each tenant that no device serves, however it is shared."""
        from cotenant.planning.mixes.kinds import PRICES

        kinds = [f"sim:{kind}" for kind in sorted(PRICES, key=lambda name: PRICES[name].usd_per_h)]
        others = [kind for kind in kinds if kind not in tried]
        end, lines = time.monotonic() + self.seconds, []
        for name in names[:MOST_NAMED]:
            change = self._change(name, end, other_kinds=others)
            if change is not None:
                lines.append(f"{name} can be served {change.sentence}: {self._command(change)}")
        return "; ".join(lines) or "relax the objective, shrink the model or the batch, or add a device"

    def explained(self, refusals: "Sequence[Refusal]") -> "tuple[Refusal, ...]":
        """The refusals with the change that admits each, as far as time allows."""
        end, changes = time.monotonic() + self.seconds, []
        for refusal in refusals:
            others = {other.tenant for other in refusals} - {refusal.tenant}
            changes.append(self._change(refusal.tenant, end, room=True, left_out=others))
        return tuple(
            refusal if change is None else replace(refusal, change=change.sentence, command=self._command(change))
            for refusal, change in zip(refusals, changes, strict=True)
        )

    def _change(
        self,
        name: str,
        end: float,
        *,
        other_kinds: Sequence[str] = (),
        room: bool = False,
        left_out: Collection[str] = (),
    ) -> "AdmissionChange | None":
        from cotenant.planning.admission import admitting_change

        return admitting_change(
            name,
            self.file.tenants[name],
            self.devices,
            lambda overrides, devices: self._admits(name, overrides, devices, alone=not room, left_out=left_out),
            other_kinds=other_kinds,
            room=room,
            more=lambda: time.monotonic() < end,
        )

    def _command(self, change: "AdmissionChange") -> str:
        given = replace(change, overrides=(*self.overrides, *change.overrides))
        return given.command(str(self.tenants), self.devices)

    def _admits(
        self, name: str, overrides: Sequence[str], devices: str, *, alone: bool, left_out: Collection[str]
    ) -> bool:
        """Whether a plan with these changes serves a tenant: by itself, or beside all others."""
        from cotenant.planning.inputs.devices import devices_of
        from cotenant.planning.inputs.predictors import PlanEvidence, predictors_for
        from cotenant.planning.inputs.tenants import tenants_to_plan
        from cotenant.planning.mixes.make import Ask, Impossible, make_plan

        try:
            file = tenants_to_plan(self.tenants, (*self.overrides, *overrides))
            entries = {name: file.tenants[name].model_copy(update={"near": (), "apart": ()})} if alone else file.tenants
            there = devices_of(devices, file.prices, priced=False)
            wanted, rough, closer = predictors_for(
                entries, there, PlanEvidence(), risk=self.risk, source=str(self.tenants), progress=lambda _: None
            )
            ask = Ask(minimise="devices", seconds=self.seconds / 10, risk=self.risk)
            made = make_plan(wanted, there.kinds, rough, clock=time.monotonic, ask=ask, closer=closer)
        except (Impossible, CotenantError):
            return False
        return {*made.left_out} <= {*left_out}


def plan_jobs(
    jobs: AnyPath,
    *,
    objective: "Objective" = "time",
    power_budget_w: float | None = None,
    work: str | None = None,
    db: AnyPath | None = None,
) -> "JobPlan":
    """Place the jobs of a file on the GPUs of the database: which job runs where, beside which other, at which clock.

    Args:
        jobs: A YAML file.
        objective: `time`, `energy` or `fairness`.
        power_budget_w: Limit on the power of all GPUs together.
        work: The work in the database whose measurements describe the GPUs; it should keep them at their power limit.
        db: The database's folder instead of the default.

    Raises:
        CotenantError: The file is wrong, the database has no such work, or the budget can't be met.
    """
    from cotenant.planning import assignment
    from cotenant.planning.assignment import read_jobs

    jobs = Path(jobs)
    queue = read_jobs(jobs)
    return assignment.plan(measured_fleet(work, db), queue, objective=objective, budget_w=power_budget_w)


def compare_policies(
    *,
    work: str | None = None,
    db: AnyPath | None = None,
    jobs: int = 2000,
    draws: int = 20,
    load: float = 0.9,
    progress: Callable[[int], None] = lambda _: None,
) -> "tuple[PolicyComparison, ...]":
    """Replay random jobs on the database's GPUs under every policy.

    Args:
        work: As for `plan_jobs`.
        db: The database's folder instead of the default.
        jobs: Jobs per draw.
        draws: Number of draws; intervals are over these.
        load: GPU time requested over GPU time available.
        progress: Called after each draw.
    """
    from cotenant.planning.comparison import compare

    seeds = range(FIRST_SEED, FIRST_SEED + draws)
    return compare(measured_fleet(work, db), count=jobs, seeds=seeds, load=load, progress=progress)


def measured_fleet(work: str | None, db: AnyPath | None) -> "GpuFleet":
    """The GPUs of the database under a kind of work."""
    from cotenant.api.db import gpus
    from cotenant.planning.gpu_fleet import fleet_of

    found = gpus(work, db=db)
    if not found:
        raise DatabaseError(
            "the database has sensor readings, but no measured work that describes its GPUs",
            hint="measure some: cotenant run variability --devices all, then cotenant db add RUN",
        )
    if len(found) > 1:
        names = ", ".join(kind.work for kind in found[:MOST_NAMED])
        names += f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        raise DatabaseError(
            f"the database contains {len(found)} kinds of work: {names}",
            hint="say which one describes the GPUs best with --work, e.g. --work sgemm",
        )
    fleet = fleet_of(found[0].profiles, simulated=found[0].simulated)
    if not len(fleet):
        raise DatabaseError(
            f"no GPU has both a clock and a power under {found[0].work}",
            hint="measure with sensors: cotenant run variability --devices all",
        )
    return fleet
