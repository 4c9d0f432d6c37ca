"""Cost of the database at ten million rows: adding and querying, each in a separate process."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROWS = 10_000_000
GPUS = 400
SENSORS = 4

_RUNS = """
SELECT 'sgemm' AS exp, printf('GPU-%08x-0000-0000-0000-000000000000', i % {gpus}) AS uuid,
    'c' || (i % {gpus}) // 48 AS cabinet, (i % {gpus}) // 4 % 12 AS node, 1600000000 + i // {gpus} * 300 AS ts,
    round(2400 * (1 + 0.02 * sin((i % {gpus}) * 1.7)) * (1 + 0.001 * sin(i * 12.9898)), 3) AS perf,
    round(1365 / (1 + 0.02 * sin((i % {gpus}) * 1.7))) AS freq, 60 + i % {gpus} % 20 AS temp,
    round(297 + 0.5 * sin(i * 7.3), 3) AS pwr
FROM range({rows}) AS rows(i)
"""
_LOG = """
SELECT strftime(TIMESTAMP '2024-01-01' + INTERVAL (i // {gpus}) SECOND, '%Y/%m/%d %H:%M:%S.%g') AS timestamp,
    printf('GPU-%08x-0000-0000-0000-000000000000', i % {gpus}) AS uuid, round(250 + 20 * sin(i * 0.7), 2)
    AS "power.draw [W]", 1365 AS "clocks.current.sm [MHz]", 60 + i // 1000 % 20 AS "temperature.gpu",
    90 AS "utilization.gpu [%]"
FROM range({rows}) AS rows(i)
"""


def measure() -> dict[str, Any]:
    """Runs of a fleet (a row each), and a log of its sensors: seconds, CPU seconds and peak memory of each step."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for what, query, count, separator in (
            ("runs", _RUNS, ROWS, ","),
            ("sensor readings", _LOG, ROWS // SENSORS, ", "),
        ):
            file, home = Path(folder) / f"{what}.csv", Path(folder) / f"{what}.db"
            _generate(query.format(rows=count, gpus=GPUS), file, separator)
            for step in ("add", "ask"):
                command = [sys.executable, str(Path(__file__).resolve()), step, str(file), str(home)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                rows.append({"what": what, "step": step, **json.loads(done.stdout.splitlines()[-1])})
            file.unlink()
    return {"rows": rows, "count": ROWS, "gpus": GPUS}


def _generate(query: str, file: Path, separator: str) -> None:
    import duckdb

    con = duckdb.connect(config={"threads": 1, "memory_limit": "512MB"})
    con.execute(f"COPY ({query}) TO '{file}' (HEADER, DELIMITER '{separator}')")
    con.close()


def _step(step: str, file: Path, home: Path) -> None:
    import cotenant

    begin = time.monotonic()
    if step == "add":
        cotenant.db.add([file], db=home)
    else:
        cotenant.db.anomalies(db=home)
    seconds = time.monotonic() - begin
    used = os.times()
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "cpu_s": used.user + used.system, "peak_mib": peak_mib}))


if __name__ == "__main__":
    if sys.argv[1:2] in (["add"], ["ask"]):
        _step(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        print(json.dumps(measure(), indent=2))
