"""The data sets, and how they are run."""

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

from cotenant.errors import DataError
from validation.reading import HINT, AbsentData
from validation.result import Result, Skipped

DATA_SETS: tuple[str, ...] = ("vidur", "orion", "max_batch", "longhorn", "zeus", "sensor_traces")
"""Modules of this package, in the order of execution and display."""
ENGINE_DATA_SETS: tuple[str, ...] = ("llm.kernels", "llm.passes", "llm.chat", "llm.generations", "llm.ranges")
"""Those of language-model engines, which have a page of their own."""


NEED_NO_DATA = frozenset({"max_batch"})


def run(data: Path, only: Sequence[str] = (), among: Sequence[str] = DATA_SETS) -> Iterator[Result | Skipped]:
    """Yield the results of all or the named data sets.

    An absent or damaged data set doesn't stop the others, unless it was named.

    Raises:
        DataError: There is no such folder or data set, the named ones can't be used, or none can.
    """
    names = chosen(only, among)
    if not data.is_dir():
        raise DataError(f"There is no folder {str(data)!r} with measured data.", hint=HINT)
    compared = bool(only)
    for name in names:
        validate: Callable[[Path], tuple[Result, ...]] = import_module(f"validation.{name}").validate
        try:
            results = validate(data)
        except DataError as problem:
            if only:
                raise
            yield Skipped(name, problem.message, damaged=not isinstance(problem, AbsentData))
            compared = compared or not isinstance(problem, AbsentData)
        else:
            yield from results
            compared = compared or name not in NEED_NO_DATA
    if not compared:
        raise DataError(f"{str(data)!r} has none of the files of measured data.", hint=HINT)


def chosen(only: Sequence[str], among: Sequence[str] = DATA_SETS) -> tuple[str, ...]:
    """The data sets to run: all, or those named, in their usual order."""
    for name in only:
        if name not in among:
            near = get_close_matches(name, among, n=1)
            raise DataError(
                f"There is no data set {name!r} to validate against.",
                hint=f"did you mean {near[0]!r}?" if near else f"they are {', '.join(among)}",
            )
    return tuple(name for name in among if not only or name in only)
