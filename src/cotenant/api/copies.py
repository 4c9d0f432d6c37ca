"""`copies`: how many copies of a server should share a device, and how?"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.api.progress_output import with_progress
from cotenant.errors import StudyError, TenantFailed
from cotenant.measure.events import Listener
from cotenant.paths import AnyPath

if TYPE_CHECKING:
    from cotenant.analyse.copies_answer import CopiesAnswer, Tuning
    from cotenant.analyse.copy_options import CopiesOption
    from cotenant.devices.protocol import Device
    from cotenant.study.model import Study
    from cotenant.tenancy.load import Load

FAILURES = 0.1
FIRST_PORT = 8000
TRIES = 3
"""Starts of the first copy before its failure is the user's to fix."""


@with_progress
def copies(
    server: str | Path,
    *,
    up_to: int = 4,
    device: str | None = None,
    workload: str = "openai:",
    request: Mapping[str, Any] | None = None,
    ready: str = "/health",
    memory: str = "",
    load: str | None = None,
    rate: str | None = None,
    slo: str | Mapping[str, str] | None = None,
    sharing: Sequence[str] = (),
    failures: float = FAILURES,
    window_s: float | None = None,
    blocks: tuple[int, int] = (3, 8),
    budget_s: float | None = None,
    port: int = FIRST_PORT,
    simulate: bool = False,
    seed: int = 1,
    out: AnyPath = "runs",
    listener: Listener | None = None,
    quiet: bool = False,  # noqa: ARG001 - `with_progress` reads it
) -> "CopiesAnswer":
    """Measure 1 to N copies of a server under every way to share the device; say how many to run, and write a script.

    Args:
        server: The command that starts it, with `{port}`; or a file with a tenant whose `server` starts it. On a
            simulated GPU: a file with a single tenant.
        up_to: The most copies.
        device: `cpu`, `cuda:0`, `sim:a100-sxm4-80gb`; by default the file's, else the CPU.
        workload: What is asked of a command's server: `openai:`, `v2:` or `http:/path`.
        request: Further keys of its tenant: `{"tokens": 64, "params": {...}}`.
        ready: Path that answers with a 2xx once a command's server can serve.
        memory: Arguments that give each copy the same explicit memory.
        load: Requests in flight at each copy: `closed(16)`; by default as many as saturate a copy.
        rate: Requests per second of all copies together: `20/s`; they divide it.
        slo: The objective: `50ms`, `{"ttft p95": "300ms"}`.
        sharing: The ways to share to try; by default all that the device has.
        failures: Share of the starts that may fail before a way isn't recommended.
        window_s: Seconds of each measurement; by default as long as the requests need.
        blocks: The least and the most repetitions.
        budget_s: Seconds for the comparison.
        port: First port in the start script.
        simulate: Start nothing: ask the model of the device's GPU. Takes a file whose workload is a model.
        seed: Of the order of trials and of all schedules.
        out: The folder below which the runs are stored.
        listener: Receives progress events; default: a display on stderr, or a bar in a notebook.
        quiet: No progress.

    Raises:
        CotenantError: It can't be measured. Finished measurements are kept.
    """
    from cotenant.devices import find_device
    from cotenant.study.copies_study import copies_study, load_asked, server_tenant, ways_among, window_for

    if up_to < 2:
        raise StudyError("at least 2 copies are needed to compare", hint="leave --up-to out, or give 2 or more")
    if load is not None and rate is not None:
        raise StudyError("a load and a rate were both given", hint="give --load or --rate")
    name, entry, named = server_tenant(server, workload, request or {}, ready, memory)
    if slo is not None:
        entry = {**entry, "slo": slo}
    place = _twin(device or named or "cpu", entry) if simulate else find_device(device or named or "cpu")
    asked = load_asked(load, rate)
    modes = [mode.mode for mode in place.sharings() if mode.available]
    ways: list[Any] = list(sharing) or ways_among(modes, gpu=place.kind != "cpu")
    tuning: Tuning | None = None
    folders: tuple[Path, ...] = ()
    if asked is None or not asked.open:
        tuning, folders = _tuned(name, entry, place, asked, window_s=window_s, seed=seed, out=out, listener=listener)
        if not tuning.saturated:
            return _answer(None, name, place, tuning=tuning, folders=folders, load=None, failures=failures)
        chosen = tuning.chosen
        assert chosen is not None, "a saturated copy served requests"
        asked = load_asked(f"closed({chosen.outstanding})", None)
        window_s = window_s or window_for(
            chosen.throughput_rps.est or 1.0, up_to, (chosen.latency_ms.est or 0.0) / 1e3 / chosen.outstanding
        )
    assert asked is not None
    study = copies_study(
        name, entry, place.name, ways, asked, up_to=up_to, blocks=blocks, budget_s=budget_s, seed=seed,
        window_s=window_s or window_for((asked.rate_rps or 1.0) / up_to, 1, 0.0),
    )  # fmt: skip
    folder = _run(study, out, listener)
    answer = _answer(folder, name, place, tuning=tuning, folders=folders, load=asked, failures=failures)
    if answer.chosen is None or place.simulated:
        return answer
    return answer.with_script(write_start_script(answer, study, place, folder / "start", port=port))


def write_start_script(
    answer: "CopiesAnswer", study: "Study", place: "Device", folder: AnyPath, *, port: int = FIRST_PORT
) -> Path:
    """Write `plan.sh`, which starts the recommended copies as they were measured (`up`) and stops them (`down`).

    Args:
        answer: What to start.
        study: The study behind it.
        place: Its device.
        folder: Where to write it.
        port: Of the first copy.
    """
    from cotenant.planning.exports import export_copies

    option = answer.chosen
    assert option is not None, "something is recommended"
    entry = study.tenants[answer.server]
    mode = option.sharing.partition("[")[0]
    made = _commands(entry, option, place, port)
    gpu = None if place.kind == "cpu" else getattr(getattr(place, "gpu", None), "index", 0)
    exported = export_copies(
        answer.server, made, sharing=mode if mode in {"mps", "mig"} else "processes", gpu=gpu,
    )  # fmt: skip
    folder = Path(folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in exported.files.items():
        (folder / path).write_text(text, encoding="utf-8")
    (folder / "plan.sh").chmod(0o755)
    return folder / "plan.sh"


def _commands(entry: Any, option: "CopiesOption", place: "Device", port: int) -> list[Any]:
    from cotenant.devices.cpu import format_cores
    from cotenant.planning.exports import CopyCommand
    from cotenant.tenancy.sharing import Sharing

    spec = entry.server
    step = 1 + spec.has_grpc_port + spec.has_metrics_port
    mode, _, inside = option.sharing.partition("[")
    shares = tuple(inside.removesuffix("]").split(", ")) if inside else ()
    numbers = tuple(float(share) if mode == "mps" else share for share in shares)
    tenants = [entry.tenant(f"copy#{number}", "copy", entry.load) for number in range(1, option.copies + 1)]
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


def _twin(device: str, entry: Mapping[str, Any]) -> "Device":
    """The simulated GPU that stands for the device; what it simulates must be a model."""
    from cotenant.devices.target import place_at, twin_of

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
    name: str, entry: Mapping[str, Any], place: "Device", asked: "Load | None", *, window_s: float | None, seed: int,
    out: AnyPath, listener: Listener | None,
) -> "tuple[Tuning, tuple[Path, ...]]":  # fmt: skip
    """Raise the load of a copy until its throughput stops growing."""
    from cotenant.analyse.copies_answer import Tuning, levels_of
    from cotenant.api.show import show
    from cotenant.study.copies_study import MORE_LEVELS, REQUESTS_TUNED, TUNING_WINDOW_S, levels_from, tuning_study

    window_s = window_s or TUNING_WINDOW_S
    folders: list[Path] = []
    known: dict[int, Any] = {}
    levels: Sequence[int] = levels_from(asked)
    while True:
        study = tuning_study(name, entry, place.name, levels=levels, window_s=window_s, seed=seed)
        folders.append(_run(study, out, listener, tries=TRIES))
        known |= {level.outstanding: level for level in levels_of(show(folders[-1]).summary)}
        tuning = Tuning(tuple(known[key] for key in sorted(known)), None if asked is None else asked.outstanding)
        alone_s = (tuning.levels[0].latency_ms.est or 0.0) / 1e3
        if alone_s * REQUESTS_TUNED > window_s * 2 and len(folders) == 1:
            window_s = min(alone_s * REQUESTS_TUNED, 60.0)  # too few requests fit: measure the same again
            continue
        if tuning.saturated or asked is not None or levels == MORE_LEVELS:
            return tuning, tuple(folders)
        levels = MORE_LEVELS


def _run(study: "Study", out: AnyPath, listener: Listener | None, *, tries: int = 1) -> Path:
    """Run it; a server that doesn't come up at its first start gets another chance."""
    from cotenant.api.run import run

    for turn in range(tries):
        try:
            return run(study, out=out, listener=listener).folder
        except TenantFailed:
            if turn == tries - 1:
                raise
    raise AssertionError("the last try raises")


def _answer(
    folder: Path | None, name: str, place: "Device", *, tuning: "Tuning | None", folders: tuple[Path, ...],
    load: "Load | None", failures: float,
) -> "CopiesAnswer":  # fmt: skip
    from cotenant.analyse.copies_answer import CopiesAnswer
    from cotenant.analyse.copy_options import options_of
    from cotenant.api.show import show
    from cotenant.store.reading import open_runs
    from cotenant.store.watched import starts

    options: tuple[CopiesOption, ...] = ()
    left_out: tuple[str, ...] = ()
    if folder is not None and load is not None:
        result = show(folder)
        with open_runs([folder]) as runs:
            options = options_of(result, starts(runs), load_each=None if load.open else load.outstanding)
        left_out = tuple(str(option) for option in result.manifests[0].get("left_out") or ())
    return CopiesAnswer(
        server=name, device=place.name, host_cores=place.host_cores, failures=failures, options=options,
        tuning=tuning, rate_rps=load.rate_rps if load is not None and load.open else None, simulated=place.simulated,
        left_out=left_out, folder=folder, tuning_folders=folders,
    )  # fmt: skip
