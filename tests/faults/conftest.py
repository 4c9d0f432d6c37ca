"""Fixtures of the fault tests: a private folder, misbehaving tenants, and a check for surviving processes."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from scenes import gone_from

from cotenant.devices import find_device
from cotenant.measure.live import LiveBench
from cotenant.tenancy.nouns import Tenant, Trial
from cotenant.tenancy.records import TrialRecords
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.ways import ALONE
from cotenant.workloads.protocol import Properties

MISBEHAVIOUR = Path(__file__).with_name("misbehaviour.py")
UNKNOWN = Properties(params=None, weight_bytes=None, flops=None, bytes_moved=None, peak_memory_bytes=None)


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep locks and logs of these tests apart from other runs on this machine; tenants can import `misbehaviour`."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    shutil.copy(MISBEHAVIOUR, tmp_path)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def nobody_left_behind(tmp_path: Path) -> Iterator[None]:
    """After every test, no tenant and nothing it started is alive."""
    yield
    assert gone_from(tmp_path) == []


@pytest.fixture
def bench() -> Iterator[LiveBench]:
    """A device with tenant processes, outside a run."""
    made = LiveBench(
        find_device("cpu"), run="test", properties=lambda _: UNKNOWN, memory_of=lambda _: 0, warm_s=(0.0, 0.0)
    )
    yield made
    made.kill()


@pytest.fixture
def serve(bench: LiveBench) -> Callable[..., TrialRecords]:
    """Carry out one trial with these tenants."""
    numbers = iter(range(1000))

    def carry_out(*tenants: Tenant, sharing: str | None = None, window_s: float = 0.15) -> TrialRecords:
        mode = sharing or (ALONE if len(tenants) == 1 else "processes")
        trial = Trial(
            number=next(numbers),
            block=0,
            order=0,
            mix="+".join(tenant.name for tenant in tenants),
            tenants=tenants,
            sharing=Sharing(mode=mode),
            load="closed(1)",
            window_s=window_s,
            lead_s=0.02,
            seed=1,
        )
        return bench.carry_out(trial, session=0, rates={})

    return carry_out
