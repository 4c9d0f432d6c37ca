"""The front end of a server holds no model: it starts without torch, and its memory stays small."""

import subprocess
import sys


def test_the_server_runs_without_torch():
    code = (
        "import sys, cotenant.serving.server, cotenant.serving.deployment, cotenant.serving.http.app\n"
        "print([name for name in ('torch', 'transformers', 'duckdb') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
