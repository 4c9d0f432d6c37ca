"""The measurements behind `copies`: from how many requests on a copy is busy, then 1 to N copies side by side."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cotenant.analyse.copies_answer import CopiesAnswer, Tuning, levels_of
from cotenant.analyse.copy_options import CopiesOption, CopyCommand, options_of
from cotenant.analyse.result import result_of
from cotenant.devices.cpu import format_cores
from cotenant.devices.protocol import Device
from cotenant.devices.target import place_at, twin_of
from cotenant.errors import SharingUnavailable, StudyError, TenantFailed
from cotenant.measure.events import Listener
from cotenant.measure.run_plan import RunPlan, plan_for
from cotenant.measure.session import measured
from cotenant.store.reading import open_runs
from cotenant.store.run_records import run_records
from cotenant.store.watched import starts
from cotenant.study.copies_study import (
    MORE_LEVELS,
    REQUESTS_TUNED,
    SEPARATE,
    TUNING_WINDOW_S,
    WINDOW_S,
    copies_study,
    levels_from,
    load_asked,
    tuning_study,
    ways_among,
    window_for,
)
from cotenant.study.model import Study
from cotenant.study.workload_check import check_workloads
from cotenant.tenancy.load import Load
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.tenant_entry import TenantEntry
from cotenant.text import listed

TRIES = 3
"""Starts of the first copy before its failure is the user's to fix."""


def measured_copies(
    name: str, entry: Mapping[str, Any], place: Device, asked: Load | None, *, up_to: int, sharing: Sequence[str],
    failures: float, window_s: float | None, blocks: tuple[int, int], budget_s: float | None, seed: int, out: Path,
    listener: Listener,
) -> tuple[CopiesAnswer, Study | None]:  # fmt: skip
    """The answer, and the study behind it; None where no load keeps a single copy busy.

    Args:
        name: Of the server.
        entry: Its tenant, as a file has it.
        place: What the copies share.
        asked: The load of each copy, or of all together if it is open; None: as many requests as saturate a copy.
        up_to: The most copies.
        sharing: The ways to share to try; empty: all that the device has.
        failures: Share of the starts that may fail before a way isn't recommended.
        window_s: Seconds of each measurement; None: as long as the requests need.
        blocks: The least and the most repetitions.
        budget_s: Seconds for the comparison.
        seed: Of the order of trials and of all schedules.
        out: The folder below which the runs are stored.
        listener: Receives progress events.

    Raises:
        CotenantError: It can't be measured. Finished measurements are kept.
    """
    modes = [mode.mode for mode in place.sharings() if mode.available]
    ways: list[Any] = list(sharing) or ways_among(modes, gpu=place.kind != "cpu")
    comparison = partial(
        copies_study, name, entry, place.name, ways, up_to=up_to, blocks=blocks, budget_s=budget_s, seed=seed
    )
    # Whatever is wrong with it is said before a copy is tuned for minutes.
    first = comparison(load=asked or Load(kind="closed"), window_s=window_s or WINDOW_S)
    check_workloads(_planned(first, place, ways).study, simulated=place.simulated)
    tuning: Tuning | None = None
    folders: tuple[Path, ...] = ()
    if asked is None or not asked.open:
        tuning, folders = _tuned(name, entry, place, asked, window_s=window_s, seed=seed, out=out, listener=listener)
        if not tuning.saturated:
            return _answer(None, name, place, tuning=tuning, folders=folders, load=None, failures=failures), None
        chosen = tuning.chosen
        assert chosen is not None, "a saturated copy served requests"
        asked = load_asked(f"closed({chosen.outstanding})", None)
        window_s = window_s or window_for(
            chosen.throughput_rps.est or 1.0, up_to, (chosen.latency_ms.est or 0.0) / 1e3 / chosen.outstanding
        )
    assert asked is not None
    study = comparison(load=asked, window_s=window_s or window_for((asked.rate_rps or 1.0) / up_to, 1, 0.0))
    folder = _measured(study, out, listener)
    answer = _answer(folder, name, place, tuning=tuning, folders=folders, load=asked, failures=failures)
    return answer, study


def _planned(study: Study, place: Device, ways: Sequence[Any]) -> RunPlan:
    """The study's plan. Raises SharingUnavailable; of a way that the device doesn't have, with those for copies."""
    try:
        return plan_for(study, place)
    except SharingUnavailable as refusal:
        known = {mode.mode for mode in place.sharings()}
        if all(way in known for way in ways if isinstance(way, str)):
            raise
        instead = listed([mode for mode in SEPARATE if mode in known], "or")
        raise SharingUnavailable(refusal.message, hint=f"use {instead}") from None


def start_commands(entry: TenantEntry, option: CopiesOption, place: Device, port: int) -> list[CopyCommand]:
    """How the copies of an option are started, from this port on."""
    spec, load = entry.server, entry.load
    assert spec is not None, "the copies were started by a command"
    assert load is not None, "copies have a load"
    step = 1 + spec.has_grpc_port + spec.has_metrics_port
    mode, _, inside = option.sharing.partition("[")
    shares = tuple(inside.removesuffix("]").split(", ")) if inside else ()
    numbers = tuple(float(share) if mode == "mps" else share for share in shares)
    tenants = [entry.tenant(f"copy#{number}", "copy", load) for number in range(1, option.copies + 1)]
    hosts = place.arrange(Sharing(mode=mode, shares=numbers), tenants).hosts if mode != "mig" else ()
    made = []
    for number in range(option.copies):
        first = port + number * step
        ports = list(range(first, first + step))
        arguments = spec.arguments(first, first + spec.has_grpc_port, ports[-1])
        host = hosts[number] if hosts else None
        cores = tuple(host.seats[0].options.get("cores", ())) if host else ()
        threads = {key: value for key, value in (host.env if host else {}).items() if not key.startswith("CUDA_")}
        made.append(
            CopyCommand(
                words=tuple(arguments), ports=tuple(ports), ready=spec.ready, environment={**threads, **spec.env},
                cores=format_cores(cores) if cores else "",
                percentage=round(float(shares[number])) if mode == "mps" and shares else None,
                profile=str(shares[number]) if mode == "mig" and shares else None,
            )
        )  # fmt: skip
    return made


def twin_for(device: str, entry: Mapping[str, Any]) -> Device:
    """The simulated GPU that stands for the device; what it simulates must be a model."""
    if "server" in entry:
        raise StudyError(
            "a server that is started by a command can't be simulated: its model isn't known",
            hint="give a file with one tenant and its model: {workload: llama-3.1-8b, software: vllm, tokens: 128}",
        )
    place = place_at(device)
    if place.device.kind == "cpu":
        raise StudyError("a CPU can't be simulated", hint="name a GPU: --device cuda:0 or --device sim:a100-sxm4-40gb")
    return twin_of(place)


def _tuned(
    name: str, entry: Mapping[str, Any], place: Device, asked: Load | None, *, window_s: float | None, seed: int,
    out: Path, listener: Listener,
) -> tuple[Tuning, tuple[Path, ...]]:  # fmt: skip
    """Raise the load of a copy until its throughput stops growing."""
    window_s = window_s or TUNING_WINDOW_S
    folders: list[Path] = []
    known: dict[int, Any] = {}
    levels: Sequence[int] = levels_from(asked)
    while True:
        study = tuning_study(name, entry, place.name, levels=levels, window_s=window_s, seed=seed)
        folders.append(_measured(study, out, listener, tries=TRIES))
        with open_runs(folders[-1:]) as opened:
            summary = result_of(run_records(opened)).summary
        known |= {level.outstanding: level for level in levels_of(summary)}
        tuning = Tuning(tuple(known[key] for key in sorted(known)), None if asked is None else asked.outstanding)
        alone_s = (tuning.levels[0].latency_ms.est or 0.0) / 1e3
        if alone_s * REQUESTS_TUNED > window_s * 2 and len(folders) == 1:
            window_s = min(alone_s * REQUESTS_TUNED, 60.0)  # too few requests fit: measure the same again
            continue
        if tuning.saturated or asked is not None or levels == MORE_LEVELS:
            return tuning, tuple(folders)
        levels = MORE_LEVELS


def _measured(study: Study, out: Path, listener: Listener, *, tries: int = 1) -> Path:
    """Run it; a server that doesn't come up at its first start gets another chance."""
    for turn in range(tries):
        try:
            return measured(study, out=out, listener=listener)
        except TenantFailed:
            if turn == tries - 1:
                raise
    raise AssertionError("the last try raises")


def _answer(
    folder: Path | None, name: str, place: Device, *, tuning: Tuning | None, folders: tuple[Path, ...],
    load: Load | None, failures: float,
) -> CopiesAnswer:  # fmt: skip
    options: tuple[CopiesOption, ...] = ()
    left_out: tuple[str, ...] = ()
    if folder is not None and load is not None:
        with open_runs([folder]) as runs:
            result = result_of(run_records(runs))
            options = options_of(result, starts(runs), load_each=None if load.open else load.outstanding)
        left_out = tuple(str(option) for option in result.manifests[0].get("left_out") or ())
    return CopiesAnswer(
        server=name, device=place.name, host_cores=place.host_cores, failures=failures, options=options,
        tuning=tuning, rate_rps=load.rate_rps if load is not None and load.open else None, simulated=place.simulated,
        left_out=left_out, folder=folder, tuning_folders=folders,
    )  # fmt: skip
