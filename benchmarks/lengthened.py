"""Makes a run longer by repeating its windows under new numbers, sealed like the others, to measure sizes and `show`.

The records are real, and each window is there several times.
"""

import json
from pathlib import Path

from cotenant.measure.calibration import NUMBERS
from cotenant.store import parquet, seals
from cotenant.store.folder import RunFolder, chunk_name


def lengthen(path: Path, times: int) -> int:
    """Repeat the windows of a run until there are ``times`` as many; returns their number."""
    run = RunFolder.open(path)
    chunks = {chunk: numbers for chunk, numbers in run.chunks().items() if not set(numbers) & set(NUMBERS)}
    trials = 1 + max(number for numbers in chunks.values() for number in numbers)
    con = parquet.memory(threads=1)
    [(blocks,)] = con.execute(
        f"SELECT 1 + max(block) FROM read_parquet({[str(chunk / 'trials.parquet') for chunk in chunks]})"  # noqa: S608
    ).fetchall()
    for turn in range(1, times):
        for chunk, numbers in chunks.items():
            copy = chunk.with_name(chunk_name(number + turn * trials for number in numbers))
            copy.mkdir()
            for file in chunk.glob("*.parquet"):
                moved = f"CAST(trial + {turn * trials} AS INTEGER) AS trial"
                if file.stem == "trials":
                    moved += f", CAST(block + {turn * blocks} AS INTEGER) AS block"
                source = parquet.text(str(file))
                parquet.write(con, f"SELECT * REPLACE ({moved}) FROM read_parquet({source})", copy / file.name)  # noqa: S608
            rows = json.loads((chunk / seals.NAME).read_text())["rows"]
            moved_rows = {int(number) + turn * trials: tables for number, tables in rows.items()}
            seals.write(copy, run=run.run, name=copy.name, rows=moved_rows)
    return times * sum(map(len, chunks.values()))
