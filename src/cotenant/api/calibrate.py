"""`calibrate`: fit a simulated GPU to measured solo times."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.paths import AnyPath

if TYPE_CHECKING:
    from cotenant.devices.simulated import Calibration, EngineCalibration, KernelCalibration
    from cotenant.prediction.calibration import PredictedLoad


def calibrate(source: AnyPath, *, device: str) -> "Calibration":
    """Fit host and device of each workload to its measured solo times.

    Args:
        source: A run on a real device of the simulated kind, or a CSV file with a column `workload`, a column `ms`
            (milliseconds per request, alone) and, where they matter, batch, seq, dtype, mode, software and train.
        device: The simulated GPU to fit.

    Raises:
        DeviceError: A row can't be used: a unit is wrong, a workload unknown, a time impossible.
    """
    from cotenant.measure.fitting import fit_solos

    return fit_solos(Path(source), device)


def calibrate_tables(folder: AnyPath, *, device: str) -> "KernelCalibration":
    """Fit the kernels of engines on a simulated GPU to measured tables of them.

    Args:
        folder: With tables in the columns of ai-dynamo/aiconfigurator, .parquet or .csv; those of other GPUs are
            passed over.
        device: The simulated GPU to fit.

    Raises:
        DeviceError: There is no table of this GPU, or one can't be used.
    """
    from cotenant.measure.fitting import fit_tables

    return fit_tables(Path(folder), device)


def calibrate_server(
    url: str,
    *,
    workload: str | None = None,
    device: str | None = None,
    model: str | None = None,
    api: str = "chat",
    key: str | None = None,
    prompt: int = 512,
    tokens: int = 32,
    in_flight: int = 16,
    seconds: float = 180.0,
    agree: Callable[[str], bool] = lambda _: False,
    say: Callable[[str], None] = lambda _: None,
) -> "EngineCalibration":
    """Probe a running engine with the OpenAI API, and fit its host and device times to what the client saw.

    Args:
        url: The server: `http://127.0.0.1:8000`.
        workload: The served model's name in the catalogue, by which verbs find the calibration; None: the name that
            the server gives it.
        device: The simulated GPU like the server's; None: rates per token instead of scales of its kernels' laws.
        model: The model's name at the server; None for its only model.
        api: `chat` or `completions`.
        key: Sent as `Authorization: Bearer`.
        prompt: Tokens of the intended load's prompts.
        tokens: Tokens of its answers.
        in_flight: Its requests in flight.
        seconds: At most about this long.
        agree: Asked, with what will be sent, before requests go to another machine.
        say: Called with what will be sent, and each result.

    Raises:
        CotenantError: The server isn't an engine, refuses, fails or is busy; or the device isn't simulated.
    """
    from cotenant.measure.fitting import fit_server

    return fit_server(
        url, workload=workload, device=device, model=model, api=api, key=key, prompt=prompt, tokens=tokens,
        in_flight=in_flight, seconds=seconds, agree=agree, say=say,
    )  # fmt: skip


def predict_server(source: AnyPath, loads: Sequence[str], *, beside: float = 0.0) -> "tuple[PredictedLoad, ...]":
    """What clients of a calibrated server would see at other loads, whatever its device.

    Args:
        source: The file that `calibrate_server` wrote.
        loads: Each as `PROMPT/TOKENS LOAD`: `256/32 closed(8)`, `128/64 2/s`.
        beside: Of a server on a CPU: the share of its cores that a neighbour keeps busy.

    Raises:
        CotenantError: The file has no probes, or a load can't be read.
    """
    from cotenant.measure.fitting import predicted_loads

    return predicted_loads(Path(source), loads, beside=beside)
