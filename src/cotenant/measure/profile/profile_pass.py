"""A profile pass: every mix of a study once, under a profiler, into a run folder never used for slowdowns."""

import contextlib
import logging
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
from cotenant.measure.bench import bench_for
from cotenant.measure.events import Listener, Preparing, RunEnded, RunStarted, TrialDone, TrialStarted
from cotenant.measure.locking import device_lock
from cotenant.measure.profile import kernels as found_kernels
from cotenant.measure.profile.tools import Tool, interpreter
from cotenant.measure.profile.trials import BEGINS, DONE, Order
from cotenant.measure.run_plan import RunPlan
from cotenant.opening import drafted
from cotenant.store import parquet, seals
from cotenant.store.folder import RunFolder, new_run_path
from cotenant.store.manifest import PROFILE_PASS
from cotenant.store.observe import observe_trial
from cotenant.store.query import sql
from cotenant.study.expand import needs_capacity
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.records import TABLES, Columns, TrialRecords, Verdict

log = logging.getLogger(__name__)

WINDOW_S = 2.0
"""A profile shows what runs, not how fast: this is enough for most, and every kernel is a row."""
LEAD_S = 0.5
NEVER_NS = 1 << 62
TRIALS = "cotenant.measure.profile.trials"
WHY = "profiling slows tenants down: this run shows kernels and overlap, not slowdowns or rates"


def carry_out(plan: RunPlan, device: Device, tool: Tool, *, out: Path, listener: Listener) -> Path:
    """Profile each mix of the plan once under each sharing; return the run folder.

    Raises:
        TenantFailed: A mix could not be profiled; nothing is kept.
    """
    study = plan.study
    path = new_run_path(out, f"{study.name}-profile")
    trials = passes(plan.block(0).trials)
    with device_lock(device.lock_keys(), run=str(path)):
        folder = RunFolder.create(path, {"run": path.name, **_manifest(plan, device, tool)})
        listener(_started(plan, device, path, len(trials)))
        try:
            rates = _rates(plan, device, listener)
            with tempfile.TemporaryDirectory(prefix=".profile-", dir=path) as place:
                _Pass(folder, device, tool, Path(place), listener).carry_out(trials, rates)
        except BaseException as problem:
            interrupted = isinstance(problem, KeyboardInterrupt)
            with contextlib.suppress(RunFolderError):  # the disk may be full
                folder.update_manifest(state="interrupted" if interrupted else "failed")
            raise
        folder.update_manifest(state="complete", why="every mix profiled once")
        listener(RunEnded(folder=path, why="every mix profiled once"))
    return path


def passes(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """One trial per mix and sharing, with the study's first load and settings; never part of a block."""
    chosen: dict[tuple[str, str], Trial] = {}
    for trial in sorted(trials, key=lambda planned: (not planned.solo, planned.number)):
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
    """Carries out trials in a scratch folder under the profiler, then adopts them with the profiler's results."""

    folder: RunFolder
    device: Device
    tool: Tool
    place: Path
    listener: Listener

    def carry_out(self, trials: Sequence[Trial], rates: dict[str, float]) -> None:
        """Run all trials, then read the profiler's results for each."""
        traces = self.place / "traces"
        traces.mkdir()
        order = Order(
            device=self.device.name,
            trials=tuple(trials),
            rates=rates,
            folder=str(self.place / "run"),
            manifest={"run": self.folder.run, PROFILE_PASS: self.tool.name},
        )
        self._start(order, traces)
        scratch = RunFolder.open(self.place / "run")
        carried = trials_of(scratch)
        kernels, samples = self._found(traces, carried[0].start_ns)
        ends = [*(trial.start_ns for trial in carried[1:]), NEVER_NS]
        for trial, end_ns in zip(carried, ends, strict=True):
            span = (trial.start_ns, end_ns)
            mine = found_kernels.of_trial(kernels, trial.tenants, span)
            adopt(
                self.folder,
                scratch,
                trial.number,
                mine,
                found_kernels.samples_of_trial(samples, self.device.name, span),
            )

    def _found(self, traces: Path, start_ns: int) -> tuple[Columns, Columns]:
        export = self.tool.export(traces)
        if export is None:
            return found_kernels.from_tenants(traces), {}
        kernels, samples, note = found_kernels.from_export(export, start_ns)
        if note:
            marked = self.folder.manifest[PROFILE_PASS]
            self.folder.update_manifest(**{PROFILE_PASS: {**marked, "notes": [*marked["notes"], note]}})
        return kernels, samples

    def _start(self, order: Order, traces: Path) -> None:
        """Carry out the trials in a separate process under the profiler. Raises TenantFailed with its last output."""
        file = self.place / "order.json"
        log.info("profiling %d trials with %s", len(order.trials), self.tool.name)
        file.write_text(order.model_dump_json(), encoding="utf-8")
        begin, last, current = time.monotonic(), "no reason given", order.trials[0]
        by_number = {trial.number: trial for trial in order.trials}
        with _child(
            self.tool.command([*interpreter(), TRIALS, str(file)], traces), self.tool.environment(traces)
        ) as child:
            assert child.stdout is not None
            for line in child.stdout:
                if line.startswith(BEGINS):
                    current, begin = by_number[int(line[len(BEGINS) :])], time.monotonic()
                    self.listener(TrialStarted(trial=current.number, block=current.block, **_what(current)))
                elif line.startswith(DONE):
                    self._tell_done(current, line[len(DONE) :].strip(), time.monotonic() - begin)
                elif line.strip():
                    last = line.strip()[:300]
            code = child.wait()
        if code != 0 or not (Path(order.folder) / "trials").is_dir():
            raise TenantFailed(
                f"{current.mix} could not be profiled with {self.tool.name}: {last}",
                hint="check that `cotenant run` works with the same study; or use another profiler: --tool torch",
            )

    def _tell_done(self, trial: Trial, verdict: str, seconds: float) -> None:
        said: Verdict = "valid" if verdict == "valid" else "unstable" if verdict == "unstable" else "invalid"
        self.listener(
            TrialDone(trial=trial.number, block=trial.block, verdict=said, reasons=(), seconds=seconds, **_what(trial))
        )


def _what(trial: Trial) -> dict[str, str]:
    return {"mix": trial.mix, "sharing": str(trial.sharing), "load": trial.load}


@contextlib.contextmanager
def _child(command: Sequence[str], environment: Mapping[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """A process whose lines can be read; it and its process group are always gone afterwards."""
    child = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment},
        start_new_session=True,  # Ctrl-C goes to us; we end it with everything it started
        text=True,
        errors="replace",
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if child.stdout is not None:
            child.stdout.close()


def _rates(plan: RunPlan, device: Device, listener: Listener) -> dict[str, float]:
    """Each tenant's capacity alone, where a load is a share of it: measured here, without a profiler."""
    tenants = needs_capacity(plan.study)
    if not tenants:
        return {}
    listener(Preparing("measuring each tenant's capacity alone"))
    bench, rates = bench_for(device, run="capacity"), {}
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


def _manifest(plan: RunPlan, device: Device, tool: Tool) -> dict[str, Any]:
    return {
        PROFILE_PASS: {"tool": tool.name, "why": WHY, "notes": list(tool.notes)},
        "study_name": f"{plan.study.name} (profile pass)",
        "study": plan.study.to_yaml(),
        "seed": plan.study.seed,
        "device": device.name,
        "simulated": False,
        "device_description": dict(device.describe()),
        "sessions": [provenance.session()],
        "state": "running",
    }


def _started(plan: RunPlan, device: Device, path: Path, trials: int) -> RunStarted:
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


# --- moves a trial with the profiler's results from a scratch folder into the run, atomically by a rename

PART = "part.parquet"


@dataclass(frozen=True, slots=True)
class Carried:
    """A trial of a scratch folder."""

    number: int
    start_ns: int
    tenants: Mapping[str, int | None]
    """Process ids by tenant."""


def trials_of(scratch: RunFolder) -> tuple[Carried, ...]:
    """The trials of a scratch folder, in the order they were carried out."""
    rows = sql("SELECT trial, start_ns FROM trials ORDER BY start_ns", [scratch.path]).rows
    tenants: dict[int, dict[str, int | None]] = {}
    for trial, tenant, pid in sql("SELECT trial, tenant, pid FROM tenants", [scratch.path]).rows:
        tenants.setdefault(trial, {})[tenant] = pid
    return tuple(Carried(number, start_ns, tenants[number]) for number, start_ns in rows)


def adopt(folder: RunFolder, scratch: RunFolder, number: int, kernels: Columns, samples: Columns) -> None:
    """Add kernels and samples to the scratch trial, then move it into the run."""
    source = scratch.trial_path(number)
    records = TrialRecords(trial={"trial": number}, tenants=(), requests={}, kernels=kernels, samples=samples)
    con = parquet.memory()
    try:
        with parquet.loaded(con, [records], folder.run) as queries:
            for table in ("kernels", "samples"):
                if table in queries:
                    _append(con, queries[table], source / f"{table}.parquet")
        rows = {table: _rows(con, source / f"{table}.parquet") for table in TABLES}
    finally:
        con.close()
    seals.write(source, run=folder.run, name=source.name, rows={number: {t: n for t, n in rows.items() if n}})
    target = folder.trial_path(number)
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)


def _append(con: Any, query: str, file: Path) -> None:
    """Append the rows of a query to a file."""
    if not file.exists():
        parquet.write(con, query, file)
        return
    with drafted(file, PART) as part:
        parquet.write(con, f"FROM read_parquet({parquet.text(str(file))}) UNION ALL BY NAME {query}", part)


def _rows(con: Any, file: Path) -> int:
    if not file.exists():
        return 0
    (count,) = con.execute(f"SELECT count(*) FROM read_parquet({parquet.text(str(file))})").fetchone()  # noqa: S608  (quoted)
    return int(count)
