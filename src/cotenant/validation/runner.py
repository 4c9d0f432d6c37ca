"""Which data sets there are, and how they are run."""

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

from cotenant.errors import DataError
from cotenant.validation.result import Result

DATA_SETS: tuple[str, ...] = (
    "vidur",
    "nvidia_tables",
    "timm",
    "orion",
    "max_batch",
    "nos",
    "parvagpu",
    "miso",
    "mig",
    "gavel",
    "longhorn",
    "zeus",
    "sensor_traces",
)
"""Modules of this package, in the order in which they are run and shown."""


def run(data: Path, only: Sequence[str] = ()) -> Iterator[Result]:
    """The results of every data set, or of those named, as they come."""
    for name in chosen(only):
        validate: Callable[[Path], tuple[Result, ...]] = import_module(f"cotenant.validation.{name}").validate
        yield from validate(data)


def chosen(only: Sequence[str]) -> tuple[str, ...]:
    """The data sets to run: all, or those named, in their usual order."""
    for name in only:
        if name not in DATA_SETS:
            near = get_close_matches(name, DATA_SETS, n=1)
            raise DataError(
                f"There is no data set {name!r} to validate against.",
                hint=f"did you mean {near[0]!r}?" if near else f"they are {', '.join(DATA_SETS)}",
            )
    return tuple(name for name in DATA_SETS if not only or name in only)
