"""Divided devices: the mock driver and stand-ins for NVIDIA's tools, torch kept on the CPU."""

import pytest

from cotenant.serving.processes import remote
from tests.devices.cuda.conftest import gpus, tools
from tests.serving_division import hollow

__all__ = ["gpus", "tools"]


@pytest.fixture
def hollow_workers(monkeypatch):
    """Workers take their seats, and compute nothing."""
    monkeypatch.setattr(remote, "CHILD", hollow.COMMAND)
