"""Every example on the page about your own workloads runs as printed."""

import asyncio
import os
import re
import runpy
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import yaml

from cotenant.errors import WorkloadError
from cotenant.workloads.protocol import SENT, WorkloadSpec
from cotenant.workloads.yours import recognise
from tests.support import pace

PAGE = (Path(__file__).parents[3] / "docs/reference/workloads.md").read_text()
FILES = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL))
TENANTS = [
    (name, tenant)
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    for name, tenant in yaml.safe_load(block)["tenants"].items()
]


class Here:
    torch_device = "cpu"
    default_dtype = "float32"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The page's files in the current directory, and `python` as used on the page."""
    for name, source in FILES.items():
        (tmp_path / name).write_text(source)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "bin" / "python").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    yield tmp_path
    sys.modules.pop("my_models", None)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=pace.seconds(1)).close()
    except OSError:
        return False
    return True


@pytest.fixture
def port(folder):
    """The page's server, on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    with subprocess.Popen([sys.executable, "server.py", str(number)]) as server:
        try:
            pace.until(lambda: _answers(number), 20)
            yield number
        finally:
            server.terminate()


def test_the_page_shows_every_form():
    kinds = {type(recognise(tenant["workload"])).__name__ for _, tenant in TENANTS}
    assert kinds == {"Function", "TorchScriptFile", "OnnxFile", "Command", "Endpoint"}
    assert set(FILES) == {"my_models.py", "save_model.py", "shout.py", "server.py"}


async def _asked_once(client):
    ended = []
    await client.request(0, lambda slot, _: slot != SENT and ended.append(slot))
    await client.close()
    assert ended == list(range(len(client.slots)))


@pytest.mark.parametrize(("name", "tenant"), TENANTS, ids=[f"{i}-{name}" for i, (name, _) in enumerate(TENANTS)])
def test_every_example_runs(name, tenant, folder, request):
    tenant = dict(tenant)
    if name == "remote":
        tenant["workload"] = tenant["workload"].replace("8000", str(request.getfixturevalue("port")))
    if name == "scripted":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            runpy.run_path("save_model.py")
    spec = WorkloadSpec(name=tenant.pop("workload"), **tenant)
    workload = recognise(spec.name)
    if name == "exported":  # the page has no file for it; tested elsewhere
        with pytest.raises(WorkloadError, match=r"there is no file `model\.onnx`"):
            workload.check(spec)
        return
    workload.check(spec)
    built = workload.build(spec, Here())
    try:
        if built.client is not None:
            asyncio.run(_asked_once(built.client))
            return
        for _ in range(2):
            value = None
            for stage in built.stages:
                value = stage.run(value)
        assert value is not None
    finally:
        built.close()
    stated = spec.params.get("stated", {})
    assert workload.properties(spec).flops == stated.get("flops")
