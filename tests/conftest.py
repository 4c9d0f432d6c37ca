"""What all tests share: those that measure real time get a fair chance on a machine that is not only theirs."""

import atexit
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import settings

if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    own = Path(tempfile.gettempdir()) / f"cotenant-tests-{os.getuid()}-{worker}"
    own.mkdir(exist_ok=True)
    os.environ["TMPDIR"], tempfile.tempdir = str(own), None

if worker or "COTENANT_LOCKS" not in os.environ:
    # Devices are locked for the whole machine: tests that run at the same time would wait for each other.
    os.environ["COTENANT_LOCKS"] = tempfile.mkdtemp(prefix="cotenant-locks-")
    atexit.register(shutil.rmtree, os.environ["COTENANT_LOCKS"], ignore_errors=True)

if worker:
    # Workers share the cores: thread pools of their libraries would wait for each other. Processes they start may
    # have as many threads as anybody's.
    with pytest.MonkeyPatch.context() as around:
        around.setenv("OMP_NUM_THREADS", "1")
        around.setenv("OPENBLAS_NUM_THREADS", "1")
        import torch

    assert torch.get_num_threads() == 1

sys.path.insert(0, str(Path(__file__).parent / "nvml_mock"))

from mock_nvml import mock_nvml, nvml_library  # fixtures of every folder, found by the line before

from cotenant.devices.cpu import machine
from cotenant.devices.tree import FileTree
from tests.support import marked, pace, skips, strays

# Tests build workloads without looking for a device first.
machine.avoid_broken_tiles(FileTree())

# A deadline measures the machine and not the code; and a failure has to come back when the test is run again.
settings.register_profile("cotenant", deadline=None, derandomize=True)
settings.load_profile("cotenant")

# Each commit of a run is synced. No test outlives a power failure, and a disk takes milliseconds; processes that tests
# start do sync.
os.fsync = lambda _: None

__all__ = ["mock_nvml", "nvml_library"]


@pytest.fixture(scope="module")
def chromium():
    """A browser for the tests of a module."""
    from tests.support.browser import launched

    with launched() as browser:
        yield browser


def pytest_addoption(parser):
    parser.addoption("--allowed-skips", type=Path, help="fail if a test is skipped for a reason that this file lacks")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    if config.getoption("timeout", None) is None:
        config.option.timeout = float(config.getini("timeout") or 0) * pace.measured()
    allowed = config.getoption("--allowed-skips")
    if allowed is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(skips.SkipGate(skips.read(allowed)))
    if strays.NAME not in os.environ:  # workers belong to the session that started them
        os.environ[strays.NAME] = strays.owner()
        strays.end()
        config.add_cleanup(lambda: strays.end(os.environ.pop(strays.NAME)))


def pytest_ignore_collect(collection_path, config):
    """Don't import files without a test of the kind asked for."""
    mark = marked.only(config.option.markexpr)
    if mark and collection_path.name.startswith("test_") and mark not in marked.marks(collection_path):
        return True
    return None


def pytest_collection_modifyitems(items):
    """Put long files first, since one that starts last keeps the other workers waiting; scale stated time-outs."""
    if hidden := marked.hidden(items):
        raise pytest.UsageError(f"tests/support/marked.py can't see this in the text of the file: {hidden[0]}")
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    for item in items:
        if stated := item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(pace.seconds(stated.args[0])), append=False)


ATTEMPTS = 3
FOREIGN_SHARE = 0.05


def _machine_busy_s():
    """CPU seconds that anybody used on this machine, or that the hypervisor took away."""
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Repeat a failing `quiet` test; if others kept the machine busy all along, its answer means nothing: skip."""
    if pyfuncitem.get_closest_marker("quiet") is None:
        return None
    wanted = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    disturbed = True
    for attempt in range(ATTEMPTS):
        begin, busy, own = time.monotonic(), _machine_busy_s(), sum(os.times()[:4])
        try:
            pyfuncitem.obj(**wanted)
        except AssertionError:
            foreign = (_machine_busy_s() - busy) - (sum(os.times()[:4]) - own)
            disturbed &= foreign > FOREIGN_SHARE * (time.monotonic() - begin) * (os.cpu_count() or 1)
            if attempt == ATTEMPTS - 1:
                if disturbed:
                    pytest.skip("something else kept this machine busy each time")
                raise
        else:
            return True
    return None
