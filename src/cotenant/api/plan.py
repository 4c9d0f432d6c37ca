"""`plan`: tenants with rates and objectives on devices, at what cost; and jobs on the measured GPUs of a fleet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

from cotenant.analyse.tabular import plain
from cotenant.api.handles import one_line, paragraphs, public
from cotenant.api.progress_output import Say, saying
from cotenant.errors import CotenantError
from cotenant.paths import AnyPath, Runs, home_of, run_paths
from cotenant.planning.mixes import ServingPlan
from cotenant.store.folder import write_whole
from cotenant.text import amount

if TYPE_CHECKING:
    from cotenant.planning.assignment import JobPlan, Objective
    from cotenant.planning.check import Checked
    from cotenant.planning.exports import Model
    from cotenant.planning.mixes import Minimise, PlanMove
    from cotenant.tenancy.plan_document import PlanDocument

SECONDS, RISK = 30.0, 0.1


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
        from cotenant.planning.inputs import devices_of, model_of
        from cotenant.planning.mixes import from_document
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
        return write_whole(path, head + self.document().to_yaml())

    def page(self, path: AnyPath) -> Path:
        """Write the plan as an HTML page that needs no network. Raises CotenantError if it can't be written."""
        from cotenant.reporting.results import plan_page

        return write_whole(path, plan_page(self, source=self.source))

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
        from cotenant.planning.exports import export, exported

        folder = Path(folder)
        if any(folder.glob(".state-*")):
            hint = f"run {folder}/plan.sh down, or choose another folder"
            raise CotenantError(f"the plan in {folder} is up", hint=hint)
        made = export(exported(self, self.models, str(folder.resolve())), target)
        paths = []
        for name, text in made.files.items():
            paths.append(write_whole(folder / name, text))
            if name.endswith(".sh"):
                paths[-1].chmod(0o755)
        return WrittenExport(tuple(paths), made.notes)

    def moves_from(self, old: "AnyPath | Plan") -> "tuple[PlanMove, ...]":
        """The moves that lead from an older plan (a plan.yaml, or a handle) to the new plan, the cheapest first.

        Raises:
            CotenantError: It can't be read or isn't a plan.
        """
        from cotenant.planning.mixes import moves_between
        from cotenant.tenancy.plan_document import read_plan

        return moves_between(old.document() if isinstance(old, Plan) else read_plan(Path(old)), self.document())

    def document(self) -> "PlanDocument":
        """The plan as plan.yaml holds it."""
        from cotenant.planning.mixes import document_of

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


@overload
def plan(
    tenants: AnyPath, devices: str, *, minimise: "Minimise" = ..., seconds: float = ..., risk: float = ...,
    prices: Mapping[str, float] | None = ..., runs: Runs = ..., power_budget_w: float | None = ...,
    overrides: Sequence[str] = ..., sharing: Sequence[str] = ..., say: Say | None = ..., quiet: bool = ...,
) -> Plan: ...  # fmt: skip
@overload
def plan(
    tenants: AnyPath, devices: str | None = ..., *, minimise: "Minimise" = ..., seconds: float = ..., risk: float = ...,
    prices: Mapping[str, float] | None = ..., runs: Runs = ..., power_budget_w: float | None = ...,
    overrides: Sequence[str] = ..., sharing: Sequence[str] = ..., objective: "Objective" = ..., work: str | None = ...,
    db: AnyPath | None = ..., say: Say | None = ..., quiet: bool = ...,
) -> "Plan | JobPlan": ...  # fmt: skip
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
    sharing: Sequence[str] = (),
    objective: "Objective" = "time",
    work: str | None = None,
    db: AnyPath | None = None,
    say: Say | None = None,
    quiet: bool = False,
) -> "Plan | JobPlan":
    """Find the best plan that keeps every objective at the upper end of the prediction; or place jobs.

    A file of nothing but jobs, without devices, is placed on the GPUs of the database: which job runs where, beside
    which other, at which clock.

    Args:
        tenants: A tenants file.
        devices: Available devices: `sim:a100-sxm4-80gb*4, sim:t4*2`, `cuda:0,1`, `cpu`; default: those of the file.
        minimise: `cost`, `devices`, `energy` or `latency`. Where no device has a price, `cost` counts devices.
        seconds: Time for everything. Describing tenants counts, but leaves at least a fifth of it for the search.
            Time in which others had the processor doesn't count, up to twice as much again; nor does compiling the
            simulation, once after installation.
        risk: How often an objective may be missed, given the prediction's validated error.
        prices: Dollars per hour by kind of device; takes precedence over the file and the table.
        runs: Runs whose measurements correct the predictions, and served traffic, whose rates replace the file's;
            tenants are matched by name.
        power_budget_w: Limit on the power of all devices in any state: clocks are lowered until it holds.
        overrides: Changes of the file, `tenants.embed.rate=20/s`.
        sharing: Ways to share that the plan may choose, e.g. `processes` and `mps`; default: all that the devices have.
        objective: For jobs: `time`, `energy` or `fairness`.
        work: For jobs: the work in the database whose measurements describe the GPUs; it should keep them at their
            power limit.
        db: For jobs: the database's folder instead of the default.
        say: Called with progress messages; default: they go to stderr.
        quiet: No progress messages.

    Raises:
        ImpossibleObjectives: No device can keep a tenant's objectives.
        CotenantError: The file is wrong, a device or price is unknown, or the database has no such work.
    """
    from cotenant.planning.inputs import MadePlan, made_plan

    made = made_plan(
        Path(tenants), devices, minimise=minimise, seconds=seconds, risk=risk, prices=prices or {},
        runs=run_paths(runs), power_budget_w=power_budget_w, overrides=overrides, sharing=sharing, objective=objective,
        work=work, home=home_of(db), progress=saying(say, quiet=quiet),
    )  # fmt: skip
    if not isinstance(made, MadePlan):
        return made
    return Plan.of(made.plan, source=str(tenants), available=made.available, models=made.models, runs=made.runs)
