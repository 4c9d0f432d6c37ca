"""All rows of all data sets that are driven as a user does."""

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
    "timeslicing_llms": sharing.llms,
    "parvagpu": sharing.parvagpu,
    "nos": sharing.nos,
    "gavel": sharing.gavel,
    "tails": sharing.tails,
}


def collect(data: Path, seen: Callable[[str], None] = lambda _: None) -> list[UserRow]:
    """Every row; a data set that is absent is named and left out.

    Raises:
        DataError: The folder holds none of them.
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
        raise DataError(f"{str(data)!r} holds none of the files of measured data.")
    return rows
