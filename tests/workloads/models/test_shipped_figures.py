"""Figures that ship with the package are those of a dry run, and spare it."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.workloads import figures, find, shipped
from cotenant.workloads.protocol import WorkloadSpec

TOOL = Path(__file__).parents[3] / "tools/figures.py"


@pytest.fixture
def forgotten():
    """The file is read again."""
    shipped._known.cache_clear()
    yield
    shipped._known.cache_clear()


@pytest.mark.slow
def test_the_file_is_what_dry_runs_give_today():
    spec = importlib.util.spec_from_file_location("tool", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.computed() == shipped.FILE.read_text(encoding="utf-8"), "`make figures` writes it"


@pytest.mark.parametrize("call", ["list_workloads()", "dry_run('search-bottlenecks', device='cpu')"])
def test_neither_the_list_nor_the_largest_study_needs_torch(tmp_path, call):
    # On a small machine the study doesn't fit, which is found out in the same way.
    program = f"""
import contextlib, sys
import cotenant, cotenant.errors
with contextlib.suppress(cotenant.errors.DoesNotFit):
    cotenant.{call}
sys.exit("torch" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)})


def test_other_versions_are_described_anew(monkeypatch, forgotten):
    assert shipped.shipped(WorkloadSpec(name="bert-base-mini")) is not None
    shipped._known.cache_clear()
    monkeypatch.setattr(shipped, "version", lambda _: "1.0")
    assert shipped.shipped(WorkloadSpec(name="bert-base-mini")) is None


def test_what_does_not_ship_is_described():
    spec = WorkloadSpec(name="bert-base-mini", batch=3)
    assert shipped.shipped(spec) is None
    assert figures(spec) == find("bert-base-mini").properties(spec)
