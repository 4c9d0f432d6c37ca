"""`triton_server.py FOLDER PORT GRPC_PORT METRICS_PORT`: the `tritonserver` of nvidia-pytriton, with a Python model."""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

import pytriton

CONFIG = """backend: "python"
max_batch_size: 4
input [{ name: "x" data_type: TYPE_FP32 dims: [8] }]
output [{ name: "y" data_type: TYPE_FP32 dims: [8] }]
instance_group [{ kind: KIND_CPU count: 1 }]
"""
MODEL = """import triton_python_backend_utils as backend


class TritonPythonModel:
    def execute(self, requests):
        given = [backend.get_input_tensor_by_name(one, "x") for one in requests]
        made = [backend.Tensor.from_dlpack("y", one.to_dlpack()) for one in given]
        return [backend.InferenceResponse([one]) for one in made]
"""

folder, (port, grpc_port, metrics_port) = Path(sys.argv[1]), sys.argv[2:]
server = Path(pytriton.__file__).parent / "tritonserver"
packages = server.parents[1]
backends, place = folder / "backends", folder / "models" / "echo" / "1"
shutil.copytree(server / "backends", backends, dirs_exist_ok=True)
version = f"{sys.version_info.major}.{sys.version_info.minor}"
shutil.copy(server / "python_backend_stubs" / version / "triton_python_backend_stub", backends / "python")
if not place.parents[1].exists():  # unless there are models already
    place.mkdir(parents=True)
    (place / "model.py").write_text(MODEL)
    (place.parent / "config.pbtxt").write_text(CONFIG)
os.environ["LD_LIBRARY_PATH"] = str(packages / "nvidia_pytriton.libs")
os.environ["PYTHONPATH"] = str(packages)  # the stub is an interpreter of its own, which needs numpy
library = Path(sysconfig.get_config_var("LIBDIR")) / sysconfig.get_config_var("INSTSONAME")
if library.suffix != ".a":
    os.environ["LD_PRELOAD"] = str(library)  # the stub's bundled one may be older than this standard library
command = [
    str(server / "bin" / "tritonserver"),
    f"--model-repository={folder / 'models'}",
    f"--backend-directory={backends}",
    "--http-address=127.0.0.1",
    f"--http-port={port}",
    "--grpc-address=127.0.0.1",
    f"--grpc-port={grpc_port}",
    f"--metrics-port={metrics_port}",
]
os.execv(command[0], command)
