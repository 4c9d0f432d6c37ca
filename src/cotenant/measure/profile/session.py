"""A profile pass: every mix of a study once, under a profiler, into a run folder from which no slowdown is taken."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant.devices.protocol import Device
from cotenant.errors import RunFolderError, TenantFailed
from cotenant.measure import calibration, provenance
from cotenant.measure.events import Listener, Preparing, RunEnded, RunStarted, TrialDone, TrialStarted
from cotenant.measure.locking import device_lock
from cotenant.measure.plan import Plan
from cotenant.measure.profile import kernels as found_kernels
from cotenant.measure.profile.adopt import adopt, tenants_of, trial_row
from cotenant.measure.profile.bench import bench_for
from cotenant.measure.profile.one_trial import Order
from cotenant.measure.profile.tools import Tool, interpreter
from cotenant.records import Columns
from cotenant.store.folder import RunFolder
from cotenant.store.naming import new_run_path
from cotenant.store.observe import observe_trial
from cotenant.study.expand import needs_capacity
from cotenant.tenancy import Trial

WINDOW_S = 2.0
"""A profile shows what runs, not how fast: this is enough for most, and every kernel is a row."""
LEAD_S = 0.5
TRIAL_LIMIT_S = 1800.0
MARK = "profile_pass"
"""The entry of the manifest by which such a run is known."""
WHY = "profiling slows tenants down: kernels and overlap can be read from this run, slowdowns and rates can't"


def carry_out(plan: Plan, device: Device, tool: Tool, *, out: Path, listener: Listener) -> Path:
    """Profile each mix of the plan once under each sharing; gives the run folder.

    Raises:
        TenantFailed: A mix could not be profiled; those before it are in the folder.
    """
    study = plan.study
    path = new_run_path(out, f"{study.name}-profile")
    trials = passes(plan.block(0).trials)
    with device_lock(device.lock_keys(), run=str(path)):
        folder = RunFolder.create(path, {"run": path.name, **_manifest(plan, device, tool)})
        listener(_started(plan, device, path, len(trials)))
        try:
            one_pass = _Pass(folder, device, tool, _rates(plan, device, listener), listener)
            for trial in trials:
                one_pass.profile(trial)
        except BaseException as problem:
            interrupted = isinstance(problem, KeyboardInterrupt)
            with contextlib.suppress(RunFolderError):  # a full disk may be why we are here
                folder.update_manifest(state="interrupted" if interrupted else "failed")
            raise
        folder.update_manifest(state="complete", why="every mix profiled once")
        listener(RunEnded(folder=path, why="every mix profiled once"))
    return path


def passes(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """One trial for each mix and sharing, at the first of the study's loads and settings; never part of a block."""
    chosen: dict[tuple[str, str], Trial] = {}
    for trial in sorted(trials, key=lambda one: (not one.solo, one.number)):
        chosen.setdefault((trial.mix, str(trial.sharing)), trial)
    return tuple(
        trial.model_copy(
            update={
                "number": number,
                "block": calibration.CALIBRATION_BLOCK,
                "order": number,
                "window_s": min(trial.window_s, WINDOW_S),
                "lead_s": min(trial.lead_s, LEAD_S),
            }
        )
        for number, trial in enumerate(chosen.values())
    )


@dataclass(frozen=True, slots=True)
class _Pass:
    """What all trials of a pass have in common."""

    folder: RunFolder
    device: Device
    tool: Tool
    rates: dict[str, float]
    listener: Listener

    def profile(self, trial: Trial) -> None:
        """One trial under the profiler, into the run folder."""
        what = {"mix": trial.mix, "sharing": str(trial.sharing), "load": trial.load}
        self.listener(TrialStarted(trial=trial.number, block=trial.block, **what))
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=".profile-", dir=self.folder.path) as place:
            row = self._in_scratch(trial, Path(place))
        self.listener(
            TrialDone(
                trial=trial.number,
                block=trial.block,
                verdict=row["verdict"],
                reasons=tuple(row["reasons"] or ()),
                seconds=time.monotonic() - begin,
                **what,
            )
        )

    def _in_scratch(self, trial: Trial, place: Path) -> Mapping[str, Any]:
        traces = place / "traces"
        traces.mkdir()
        order = Order(
            device=self.device.name,
            trial=trial,
            rates=self.rates,
            folder=str(place / "run"),
            manifest={"run": self.folder.run, MARK: self.tool.name},
        )
        _start(order, self.tool, place / "order.json", traces)
        scratch = RunFolder.open(place / "run")
        row = trial_row(scratch)
        kernels, samples = self._found(traces, scratch, row["start_ns"])
        tenants = [tenant.name for tenant in trial.tenants]
        adopt(self.folder, scratch, trial.number, found_kernels.of_tenants(kernels, tenants, row["start_ns"]), samples)
        return row

    def _found(self, traces: Path, scratch: RunFolder, start_ns: int) -> tuple[Columns, Columns]:
        export = self.tool.export(traces)
        if export is None:
            return found_kernels.from_tenants(traces), {}
        pids = {pid: tenant for tenant, pid in tenants_of(scratch).items() if pid is not None}
        kernels, samples, note = found_kernels.from_export(export, pids, start_ns, self.device.name)
        marked = self.folder.manifest[MARK]
        if note and note not in marked["notes"]:
            self.folder.update_manifest(**{MARK: {**marked, "notes": [*marked["notes"], note]}})
        return kernels, samples


def _start(order: Order, tool: Tool, file: Path, traces: Path) -> None:
    """One trial in a process of its own, under the profiler. Raises TenantFailed with its last words."""
    file.write_text(order.model_dump_json(), encoding="utf-8")
    command = tool.command([*interpreter(), "cotenant.measure.profile.one_trial", str(file)], traces)
    with _ended(
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **tool.environment(traces)},
            start_new_session=True,  # Ctrl-C is for us: we end it, with all that it started
            text=True,
            errors="replace",
        )
    ) as child:
        try:
            said, _ = child.communicate(timeout=TRIAL_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise TenantFailed(
                f"{order.trial.mix} was not profiled after {TRIAL_LIMIT_S:g} s", hint="try a smaller study first"
            ) from None
    trials = Path(order.folder) / "trials"
    if child.returncode != 0 or not trials.is_dir():
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        words = lines[-1][:300] if lines else "no reason given"
        raise TenantFailed(
            f"{order.trial.mix} could not be profiled with {tool.name}: {words}",
            hint="does it run at all? cotenant run with the same study; or another profiler: --tool torch",
        )


@contextlib.contextmanager
def _ended(child: "subprocess.Popen[str]") -> Iterator["subprocess.Popen[str]"]:
    """Whatever happens, the process and its group are gone afterwards."""
    try:
        yield child
    finally:
        if child.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _rates(plan: Plan, device: Device, listener: Listener) -> dict[str, float]:
    """What tenants can do alone, where a load is given as a share of it: measured here, without a profiler."""
    tenants = needs_capacity(plan.study)
    if not tenants:
        return {}
    listener(Preparing("measuring what each tenant can do alone"))
    bench, rates = bench_for(device, "capacity"), {}
    try:
        trials = calibration.capacity_trials(tenants, window_s=1.0, lead_s=LEAD_S, seed=plan.study.seed)
        bench.prepare(trials)
        for trial in trials:
            [seen] = observe_trial(bench.carry_out(trial, session=0, rates={}), "capacity")
            rates[seen.of] = seen.throughput_rps
    except BaseException:
        bench.kill()
        raise
    bench.close()
    return rates


def _manifest(plan: Plan, device: Device, tool: Tool) -> dict[str, Any]:
    return {
        MARK: {"tool": tool.name, "why": WHY, "notes": list(tool.notes)},
        "study_name": f"{plan.study.name} (profile pass)",
        "study": plan.study.to_yaml(),
        "seed": plan.study.seed,
        "device": device.name,
        "simulated": False,
        "device_description": dict(device.describe()),
        "sessions": [provenance.session()],
        "state": "running",
    }


def _started(plan: Plan, device: Device, path: Path, trials: int) -> RunStarted:
    return RunStarted(
        folder=path,
        study=plan.study.name,
        device=device.name,
        simulated=False,
        trials_per_block=trials,
        blocks_min=1,
        blocks_max=1,
        budget_s=None,
        target=None,
        resumed=False,
        done_trials=0,
    )
