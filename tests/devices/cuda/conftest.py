"""A simulated machine with GPUs: the mock driver, stand-ins for NVIDIA's tools, torch kept on the CPU."""

import os
import sys
from pathlib import Path

import pytest

FAKE_TOOLS = Path(__file__).resolve().parents[2] / "fake_tools"


@pytest.fixture
def gpus(mock_nvml, tmp_path, monkeypatch):
    """An idle V100, A100 and H100; restore notes go to a folder of the test."""
    for name, value in mock_nvml.env().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COTENANT_TORCH_DEVICE", "cpu")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return mock_nvml


@pytest.fixture
def tools(monkeypatch):
    """Stand-ins for NVIDIA's command-line tools."""
    here = Path(sys.executable).parent  # they are Python and need the bindings
    monkeypatch.setenv("PATH", f"{FAKE_TOOLS}:{here}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_DCGMI", "no-engine")
    return monkeypatch
