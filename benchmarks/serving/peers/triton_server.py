"""Triton tuned: the models take turns by the rate limiter, and requests that waited too long are refused.

    triton_server.py PORT FOLDER '{"bert": 30000, ...}'      queue timeouts in microseconds

Writes a model repository into FOLDER and becomes the `tritonserver` of the nvidia-pytriton wheel.
"""

import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path

from tenants import NAMES

CONFIG = """backend: "python"
max_batch_size: 1
input [{{ name: "numbers" data_type: TYPE_INT64 dims: [64] }}]
output [{{ name: "made" data_type: TYPE_FP32 dims: [-1] }}]
instance_group [{{ kind: KIND_CPU count: 1 rate_limiter {{
  resources [{{ name: "device" global: true count: 1 }}] priority: 1 }} }}]
dynamic_batching {{ max_queue_delay_microseconds: 0 default_queue_policy {{
  timeout_action: REJECT default_timeout_microseconds: {timeout} }} }}
"""


def main() -> None:
    """Write the repository and exec the server."""
    import pytriton

    port, folder, timeouts = int(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
    here = Path(__file__).resolve().parent
    server = Path(pytriton.__file__).parent / "tritonserver"
    packages = server.parents[1]
    backends = folder / "backends"
    shutil.copytree(server / "backends", backends)
    shutil.copy(server / "python_backend_stubs" / "3.11" / "triton_python_backend_stub", backends / "python")
    models = folder / "models"
    for name in NAMES:
        place = models / name / "1"
        place.mkdir(parents=True)
        shutil.copy(here / "triton_model.py", place / "model.py")
        (place / "where.json").write_text(json.dumps([str(here), str(packages)]))
        (models / name / "config.pbtxt").write_text(CONFIG.format(timeout=timeouts[name]))
    os.environ["LD_LIBRARY_PATH"] = str(packages / "nvidia_pytriton.libs")  # the stub's own path ends with its folder
    library = Path(sysconfig.get_config_var("LIBDIR")) / sysconfig.get_config_var("INSTSONAME")
    if library.suffix != ".a":
        os.environ["LD_PRELOAD"] = str(library)  # the stub's bundled one may be older than this standard library
    command = [
        str(server / "bin" / "tritonserver"),
        f"--model-repository={models}",
        f"--backend-directory={backends}",
        "--rate-limit=execution_count",
        "--rate-limit-resource=device:1",
        "--http-address=127.0.0.1",
        f"--http-port={port}",
        "--allow-grpc=false",
        "--allow-metrics=false",
    ]
    os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main()
