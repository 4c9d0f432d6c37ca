"""Plans to export, and a machine with stand-ins for GPU tools to run the exports on."""

import json
import os
import random
import socket
import subprocess
from pathlib import Path

from cotenant.planning.exports.model import Model, exported
from cotenant.planning.exports.targets import export
from cotenant.planning.mixes.serving_plan import KeptObjective, PlannedDevice, SeatedTenant, ServingPlan
from cotenant.tenancy.interval import Interval
from tests.support import pace

GIB = 2**30
TESTS = Path(__file__).parent.parent
MODELS = {
    "embed": Model("bert-base", seq=128, runs={"workload": "bert-base", "seq": 128}),
    "chat": Model(
        "llama-3.2-3b",
        generates=True,
        seq=256,
        tokens=64,
        weights="meta-llama/Llama-3.2-3B",
        runs={"workload": "llama-3.2-3b", "seq": 256, "mode": "generate", "tokens": 64},
    ),
}


def seat(tenant, *, share=None, batch=4, priority=0, gib=8, limit=30.0, software="eager"):
    kept = (KeptObjective("p99", limit, Interval(10.0, 8.0, 14.0)),)
    return SeatedTenant(tenant, 0, 1, 100.0, batch, software, share, priority, gib * GIB, Interval(1.1, 1.0, 1.2), kept)


def device(sharing, *tenants, devices=1, name="sim:a100-sxm4-80gb"):
    kind, title = "sim:a100-sxm4-80gb", "NVIDIA A100-SXM4-80GB"
    return PlannedDevice(
        name, kind, title, sharing, tenants, devices, 1.79, 80 * GIB, 0.5, 0.2, 200, "simulated"
    )  # fmt: skip


def plan_of(*devices):
    return ServingPlan("cost", devices, (), 1.79, 1.79, 1.79, "proof", 0.1, ())


def plan(sharing, *tenants, devices=1):
    return plan_of(device(sharing, *tenants, devices=devices))


def folder_for(target, plan, models=MODELS, folder="/srv/plan"):
    return export(exported(plan, models, str(folder)), target)


def files_for(target, plan, models=MODELS, **more):
    return folder_for(target, plan, models, **more).files


def notes_for(target, plan, models=MODELS):
    return folder_for(target, plan, models).notes


def free_ports(count):
    """The first of so many free ports in a row, outside those that the system gives out by itself."""
    for first in random.Random(os.getpid()).sample(range(10000, 30000, count), 50):
        doors = []
        try:
            doors += [socket.create_server(("127.0.0.1", first + number)) for number in range(count)]
        except OSError:
            continue
        finally:
            for door in doors:
                door.close()
        return first
    raise AssertionError("no free ports")


class Machine:
    """A folder with an export, and an environment in which GPU tools are stand-ins that log their calls."""

    def __init__(self, folder, **settings):
        self.folder, self.tools, self.runtime = folder / "export", folder / "tools", folder / "runtime"
        for path in (self.folder, self.tools):
            path.mkdir(parents=True)
        self.runtime.mkdir(mode=0o700)
        stand_ins = (TESTS / "planning" / "exports" / "stand_ins", TESTS / "fake_tools")
        path = ":".join(map(str, (*stand_ins, os.environ["PATH"])))
        self.environment = {
            "PATH": path, "STAND_IN": str(self.tools), "XDG_RUNTIME_DIR": str(self.runtime), "HOME": str(folder),
            **settings,
        }  # fmt: skip

    def write(self, files):
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def provide(self, files):
        """Files that people put into an export."""
        for name in files:
            if name.endswith("config.pbtxt") and name.replace("config.pbtxt", "1/model.json") not in files:
                path = self.folder / name.replace("config.pbtxt", "1/model.onnx")
                path.parent.mkdir(exist_ok=True)
                path.touch()

    def run(self, script, *words, cwd="/", **settings):
        return subprocess.run(
            ["bash", str(self.folder / script), *words], env={**self.environment, **settings}, cwd=cwd,
            capture_output=True, text=True, timeout=pace.seconds(100), check=False,
        )  # fmt: skip

    @property
    def log(self):
        """Calls of the tools so far."""
        path = self.tools / "log"
        return path.read_text() if path.exists() else ""

    @property
    def servers(self):
        """What the servers logged: started, ready, ended."""
        path = self.tools / "servers"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def running(self):
        """Processes that have this machine's environment."""
        wanted = f"STAND_IN={self.tools}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (path / "environ").read_bytes().split(b"\0"):
                    found.append((path / "cmdline").read_bytes())
            except OSError:
                continue
        return found

    @property
    def left_behind(self):
        """Files that a plan that is down must not leave."""
        return sorted(path.name for path in (*self.runtime.iterdir(), *self.folder.glob(".*")))
