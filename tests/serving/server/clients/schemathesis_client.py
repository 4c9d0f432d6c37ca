"""Run by test_clients where schemathesis is installed: random requests from the server's own description."""

import subprocess
import sys
import tempfile
from pathlib import Path

# Draining and unloading would break the other tests.
LEFT_OUT = ("/drain", "/reload", "/v2/repository/models/{model}/load", "/v2/repository/models/{model}/unload")
command = [
    str(Path(sys.executable).with_name("schemathesis")),
    "run",
    f"{sys.argv[1]}/openapi.json",
    "--url",
    sys.argv[1],
    "--checks",
    "not_a_server_error,status_code_conformance,content_type_conformance",
    "--max-examples",
    sys.argv[2],
    "--phases",
    "examples,fuzzing",
    "--seed",
    "14",
    "--workers",
    "1",
    "--request-timeout",
    "60",
    "--no-color",
]
for path in LEFT_OUT:
    command += ["--exclude-path", path]
with tempfile.TemporaryDirectory() as folder:  # it stores its findings beside itself
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
sys.stdout.write(done.stdout[-6000:])
sys.stderr.write(done.stderr[-2000:])
sys.exit(done.returncode)
