"""Cost of reading all sensors of four GPUs: a V100, an A100, an H100 and an RTX 4090 of the compiled mock driver.

The driver's own work differs on real GPUs; this measures our sampler, probes and bindings. Another process keeps a core
busy meanwhile, like a tenant.
"""

import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROUNDS = 5
SECONDS = 4.0


def measure() -> dict[str, Any]:
    """CPU time of a process that only samples, as a fraction of one core; median of rounds."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "nvml_mock"))
    from mock_nvml import MockNvml, build

    from cotenant.devices.nvidia import gpu_sensors, nvml
    from cotenant.measure.sampler import Sampler

    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder) / "lib")
        ctypes.CDLL(str(library))
        mock = MockNvml(Path(folder) / "machine", library, ("v100", "a100", "h100", "rtx4090"))
        os.environ["NVML_MOCK"] = str(mock.folder)
        for index in range(4):
            mock.change(index, load=1)
        probes = [probe for gpu in nvml.gpus() for probe in gpu_sensors.probes(gpu)]
        shares, values = [], 0
        tenant = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(ROUNDS):
            begin, cpu = time.monotonic(), time.process_time()
            with Sampler("cuda", probes) as sampler:
                time.sleep(SECONDS)
            used, seconds = time.process_time() - cpu, time.monotonic() - begin
            shares.append(used / seconds)
            values = len(sampler.samples().columns["value"])
        tenant.kill()
        nvml.forget()
    return {
        "core_share": statistics.median(shares),
        "worst_share": max(shares),
        "sensors": sum(len(probe.sensors) for probe in probes),
        "values_per_s": values / SECONDS,
        "rounds": ROUNDS,
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
