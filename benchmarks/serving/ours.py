"""Start `cotenant serve` for a benchmark with given tenants and objectives."""

import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOOSE_MS = {"bert": 30_000.0, "conv": 60_000.0, "gpt": 60_000.0}


def tenants_file(objectives_ms: dict[str, float], fairness: str) -> str:
    """The tenants with these objectives."""
    text = (Path(__file__).parent / "tenants.yaml").read_text()
    for name, objective in objectives_ms.items():
        text = re.sub(rf"(  {name}: .*?slo: )[^,]+", rf"\g<1>{objective:.3f}ms", text)
    return f"{text}fairness: {fairness}\n"


@contextmanager
def server(text: str, device: str, *, empty: bool = False) -> Iterator[tuple[str, int, int]]:
    """A running server: its host, port and process; ``empty``: see `empty_child.py`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tenants.yaml"
        file.write_text(text)
        other = [str(Path(__file__).with_name("empty_server.py")), str(file), "0", device]
        usual = ["-m", "cotenant.cli.main", "serve", str(file), "--port", "0", "--device", device]
        process = subprocess.Popen(
            [sys.executable, *(other if empty else usual)],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                raise SystemExit("the server didn't start")
            host, _, port = url.removeprefix("http://").rpartition(":")
            yield host, int(port), process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
