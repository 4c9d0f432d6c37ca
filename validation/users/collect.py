"""All rows of all data sets that are simulated as a user would."""

from collections.abc import Callable, Iterator
from pathlib import Path

from cotenant.errors import DataError
from validation.reading import AbsentData
from validation.users import sharing, solo
from validation.users.row import UserRow

DATA_SETS: dict[str, Callable[[Path], Iterator[UserRow]]] = {
    "timm": solo.timm,
    "nvidia": solo.nvidia_tables,
    "muxserve": solo.muxserve,
    "llm_inference_bench": solo.generations,
    "engines": solo.engines,
    "timeslicing_llms": sharing.llms,
    "parvagpu": sharing.parvagpu,
    "nos": sharing.nos,
    "gavel": sharing.gavel,
    "tails": sharing.tails,
}


def collect(data: Path, seen: Callable[[str], None] = lambda _: None) -> list[UserRow]:
    """Every row; an absent data set is reported and skipped.

    Raises:
        DataError: The folder has none of them.
    """
    rows: list[UserRow] = []
    for name, rows_of in DATA_SETS.items():
        try:
            found = list(rows_of(data))
        except AbsentData as problem:
            seen(f"{name}: {problem.message}")
            continue
        rows += found
        seen(f"{name}: {len(found)} rows")
    if not rows:
        raise DataError(f"{str(data)!r} has none of the files of measured data.")
    return rows
