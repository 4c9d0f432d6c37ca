"""Import measurements of other tools into our columns: a reader per format, all or nothing by default."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.errors import DataError
from cotenant.front import front
from cotenant.store.imports import dcgmi, lines, longhorn, nsys, nvidia_smi, nvprof, search_json, tegrastats
from cotenant.store.imports.result import Imported, ImportedSeries, Skipped

__all__ = ["FORMATS", "Imported", "ImportedSeries", "Skipped", "detect", "read"]


# --- detect a file's format by its content, and select the reader


@dataclass(frozen=True, slots=True)
class Format:
    """A readable format."""

    name: str
    meaning: str
    recognise: Callable[[Path, list[str]], bool]
    """Arguments: the file and its first lines."""
    read: Callable[..., Imported]
    """Takes the file, whether to skip bad lines and, for files without times, the interval."""


FORMATS: Mapping[str, Format] = {
    kind.name: kind
    for kind in (
        Format(
            "nsys",
            "SQLite export of Nsight Systems (`nsys export --type sqlite`)",
            lambda path, _: nsys.recognise(path),
            nsys.read,
        ),
        Format("nvprof", "CSV of `nvprof --print-gpu-trace`", lambda _, text: nvprof.recognise(text), nvprof.read),
        Format(
            "tegrastats",
            "lines of `tegrastats`, JetPack 4 to 7",
            lambda _, text: tegrastats.recognise(text),
            tegrastats.read,
        ),
        Format("dcgmi", "text of `dcgmi dmon`", lambda _, text: dcgmi.header_of(text) is not None, dcgmi.read),
        Format(
            "nvidia-smi",
            "CSV of `nvidia-smi --query-gpu`",
            lambda path, _: nvidia_smi.is_header(nvidia_smi.read_header(path)),
            nvidia_smi.read,
        ),
        Format(
            "longhorn",
            "CSV with a row per run: perf, freq, temp, pwr, uuid, cabinet, node, ts",
            lambda path, _: longhorn.is_header(longhorn.read_header(path)),
            longhorn.read,
        ),
    )
}
"""In the order of detection."""
WITHOUT_TIMES = ("tegrastats", "dcgmi")


def detect(path: Path) -> str:
    """The name of the file's format, detected by content. Raises DataError with all known formats."""
    text = lines.head(path, 50)
    for kind in FORMATS.values():
        if kind.recognise(path, text):
            return kind.name
    if path.suffix in {".nsys-rep", ".qdrep"}:
        raise DataError(
            f"{path} is a report of Nsight Systems, which only nsys can read.",
            hint=f"export it: nsys export --type sqlite {path}",
        )
    if text and text[0].lstrip().startswith("{") and search_json.recognise(path):
        raise DataError(
            f"{path} is a result of the original model-search study: times of stages, without naming a GPU.",
            hint=f"see where the time went: cotenant show {path}",
        )
    known = "; ".join(f"{kind.name}: {kind.meaning}" for kind in FORMATS.values())
    raise DataError(f"{path} has an unknown format.", hint=f"these are: {known}")


def read(path: Path, *, format: str | None = None, skip_bad: bool = False, interval_s: float = 1.0) -> Imported:  # noqa: A002 - the word of the command line
    """Read a file of another tool; nothing is imported in part.

    Args:
        path: The file.
        format: One of `FORMATS`; None: detected by content.
        skip_bad: Skip and count unusable lines instead of refusing the file.
        interval_s: Time between readings of files without times (`dcgmi dmon`, tegrastats of JetPack 4).

    Raises:
        DataError: The file can't be read or has unusable lines; states what, where and how many.
    """
    name = format or detect(path)
    if name not in FORMATS:
        raise DataError(f"There is no format {name!r}.", hint=f"formats are {', '.join(FORMATS)}")
    interval = {"interval_s": interval_s} if name in WITHOUT_TIMES else {}
    return FORMATS[name].read(path, skip_bad=skip_bad, **interval)


if TYPE_CHECKING:
    from cotenant.store.imports.nsys import TENANT_RANGE
    from cotenant.store.imports.result import KERNEL_COLUMNS, sentence
    from cotenant.store.imports.search_json import ModelTimes, SearchJson
else:
    __getattr__, __dir__ = front(__name__, __file__)
