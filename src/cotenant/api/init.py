"""`init`: from a few words about each model to a tenants file that every verb reads."""

from collections.abc import Sequence
from pathlib import Path

from cotenant.study.first_file import first_device, first_file, next_commands


def init(
    models: Sequence[str], *, device: str | None = None, path: str | Path = "tenants.yaml"
) -> tuple[Path, tuple[str, ...]]:
    """Write a tenants file for these models; returns its path and the commands to try next.

    Args:
        models: Each as `NAME[, RATE][, OBJECTIVE...][, LENGTHS]`, e.g. `llama-3.2-3b, 1/s, ttft p95 500ms`.
        device: The device they share; by default a simulated A100, and the CPU for servers that run.
        path: The file; it must not exist yet.

    Raises:
        BadInput: No model, words that can't be read, or a file that exists.
        WorkloadError: There is no such model; the hint names the nearest.
        DeviceError: There is no such device.
    """
    from cotenant import opening
    from cotenant.devices import find_device
    from cotenant.errors import BadInput

    if not models:
        raise BadInput("No model is named.", hint="e.g. cotenant init --model 'bert-base, 100/s, p99 30ms'")
    file = Path(path)
    if file.exists():
        raise BadInput(f"{file} exists.", hint="Choose another name: --out FILE")
    shared = device or first_device(models)
    find_device(shared)
    text = first_file(models, shared, str(file))
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise BadInput(f"{file} can't be written: {opening.why(error)}.") from error
    return file, next_commands(models, str(file), shared)
