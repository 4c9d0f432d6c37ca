"""Divided devices: the mock driver and stand-ins for NVIDIA's tools, torch kept on the CPU."""

import pytest

from cotenant.serving.workers import remote
from tests.devices.cuda.conftest import gpus, tools
from tests.serving.device_setup import hollow

__all__ = ["gpus", "tools"]


@pytest.fixture
def hollow_workers(monkeypatch):
    """Workers take their seats, and compute nothing."""
    monkeypatch.setattr(remote, "CHILD", hollow.COMMAND)
