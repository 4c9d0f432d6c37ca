"""`copies`: how many copies of a server should share a device, and how?"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.api.progress_output import with_progress
from cotenant.errors import StudyError
from cotenant.measure.events import Listener, silent
from cotenant.paths import AnyPath

if TYPE_CHECKING:
    from cotenant.analyse.copies_answer import CopiesAnswer
    from cotenant.devices.protocol import Device
    from cotenant.study.model import Study

FAILURES = 0.1
FIRST_PORT = 8000


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
    from cotenant.measure.copies import measured_copies, twin_for
    from cotenant.study.copies_study import load_asked, server_tenant

    if up_to < 2:
        raise StudyError("at least 2 copies are needed to compare", hint="leave --up-to out, or give 2 or more")
    if load is not None and rate is not None:
        raise StudyError("a load and a rate were both given", hint="give --load or --rate")
    name, entry, named = server_tenant(server, workload, request or {}, ready, memory)
    if slo is not None:
        entry = {**entry, "slo": slo}
    place = twin_for(device or named or "cpu", entry) if simulate else find_device(device or named or "cpu")
    if "server" not in entry and not place.simulated:
        raise StudyError(
            f"{server} starts no server that could be copied on {place.name}",
            hint="give its tenant server: {start: COMMAND --port {port}}; or ask the model of a GPU: --simulate",
        )
    answer, study = measured_copies(
        name, entry, place, load_asked(load, rate), up_to=up_to, sharing=sharing, failures=failures, window_s=window_s,
        blocks=blocks, budget_s=budget_s, seed=seed, out=Path(out), listener=listener or silent,
    )  # fmt: skip
    if study is None or answer.chosen is None or place.simulated:
        return answer
    assert answer.folder is not None, "a choice was measured"
    return answer.with_script(write_start_script(answer, study, place, answer.folder / "start", port=port))


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
    from cotenant.measure.copies import start_commands
    from cotenant.planning.exports import export_copies

    option = answer.chosen
    assert option is not None, "something is recommended"
    entry = study.tenants[answer.server]
    mode = option.sharing.partition("[")[0]
    made = start_commands(entry, option, place, port)
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
