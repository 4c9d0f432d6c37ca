"""A tenant may die, hang, raise, run out of memory or send garbage: its trial records it, and the run continues."""

import os
import select
import signal
from pathlib import Path

import pytest
from scenes import alive_in, bad, calm, of, recorded

from cotenant.devices.protocol import SensorInfo
from cotenant.errors import TenantFailed
from cotenant.measure.checks import CheckedTenant, CheckedTrial, failures
from cotenant.measure.tenants import host_process, pool, sequence
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.ways import ALONE


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(sequence, "HANG_S", 1.0)


def assert_lost(records, sentence):
    """The trial is invalid because this happened to a tenant."""
    assert records.trial["verdict"] == "invalid"
    assert "tenants_alive" in records.trial["failed_checks"]
    assert sentence in " ".join(records.trial["reasons"])


def assert_usable(records):
    """The trial has no failure except load from other processes on this machine."""
    assert records.trial["verdict"] != "invalid", records.trial["reasons"]


def test_a_tenant_that_is_killed_in_the_middle_of_a_trial(serve, tmp_path):
    file = tmp_path / "now"
    victim = bad("is_killed", file=str(file))
    before = serve(calm(), victim)
    assert_usable(before)
    pid = of(before, "bad")["pid"]
    file.touch()
    during = serve(calm(), victim, window_s=1.0)
    file.unlink()
    assert_lost(during, "bad was killed by SIGKILL")
    assert "sharing_verified" not in during.trial["failed_checks"], "dead tenants are not asked where they run"
    assert of(during, "bad")["error"] == "was killed by SIGKILL"
    assert recorded(during, "bad") > 0, "its served requests are kept"
    assert during.requests["done_ns"].min() > 0
    assert recorded(during, "calm") < 0.9 * 1000 / 2, "the others stop early: nothing is left to measure"
    after = serve(calm(), victim)
    assert_usable(after)
    assert of(after, "bad")["pid"] != pid
    assert of(after, "calm")["pid"] == of(before, "calm")["pid"], "innocent tenants stay up"


def test_a_tenant_that_dies_between_trials_is_replaced_before_the_next(serve):
    first = serve(calm())
    pid = of(first, "calm")["pid"]
    gone = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert select.select([gone], [], [], 10)[0], "it is gone, but the runner has not noticed yet"
    os.close(gone)
    second = serve(calm())
    assert_usable(second)
    assert of(second, "calm")["pid"] != pid


def test_a_hanging_tenant_that_ignores_signals_is_killed(serve, impatient):
    records = serve(bad("is_deaf"), calm())
    assert_lost(records, "bad hung: it gave no answer 1 s after the end of the trial")
    assert recorded(records, "bad") == 3, "the fifth request never ended, and the first was the warm-up's"
    assert recorded(records, "calm") > 10
    assert_usable(serve(calm()))


def test_in_a_shared_process_the_one_that_hangs_is_named(serve, impatient):
    records = serve(bad("hangs"), calm(), sharing="threads")
    assert_lost(records, "bad hung")
    assert of(records, "calm")["error"] == "was ended with its process, in which bad hung"


@pytest.mark.parametrize(
    ("tenant", "sentence"),
    [
        (bad("lacks_memory"), "bad ran out of memory at request 4: MemoryError"),
        (
            bad("lacks_memory", says="[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory"),
            "bad ran out of memory at request 4: RuntimeError: [enforce fail",
        ),
        (bad("aborts"), "bad ran out of memory (terminate called after throwing an instance of 'std::bad_alloc')"),
        (bad("lacks_memory_when_built"), "bad ran out of memory while it was built"),
    ],
    ids=["in a request", "in torch's words", "in C++", "when built"],
)
def test_a_tenant_that_runs_out_of_memory(serve, tenant, sentence):
    assert_lost(serve(tenant), sentence)


def test_a_tenant_the_kernel_kills_for_lack_of_memory(serve, monkeypatch):
    ended = iter([0])
    monkeypatch.setattr(host_process, "_kernel_oom_kills", lambda: next(ended, 1))
    assert_lost(serve(bad("leaves", by="signal")), "bad ran out of memory: the kernel killed it")


def test_a_request_that_raises_once_is_recorded_and_tolerated(serve):
    records = serve(bad("raises", times=1))
    assert_usable(records)
    assert int((~records.requests["ok"]).sum()) == 1
    assert of(records, "bad")["error"] == "ValueError: no answer to this request"


def test_a_tenant_that_fails_from_some_request_on_gives_up(serve):
    records = serve(bad("raises"), calm(), window_s=1.0)
    assert records.trial["verdict"] == "invalid"
    assert "requests_succeed" in records.trial["failed_checks"]
    assert "ValueError: no answer to this request" in " ".join(records.trial["reasons"])
    assert recorded(records, "bad") == 23, "three good ones, then twenty bad ones: it does not go on for a second"


def test_a_tenant_that_cannot_be_built_is_not_retried_forever(serve, bench, monkeypatch):
    first = Trial(
        number=0,
        block=0,
        order=0,
        mix="bad",
        tenants=(bad("raises_when_built"),),
        sharing=Sharing(mode=ALONE),
        load="",
        window_s=1,
        lead_s=0,
        seed=0,
    )
    with pytest.raises(TenantFailed, match=r"^bad could not be built: `misbehaviour:raises_when_built` raised while"):
        bench.prepare([first])
    assert_lost(serve(bad("raises_when_built")), "KeyError: 'width' (misbehaviour.py:")
    monkeypatch.setattr(pool, "HostProcess", None)  # no further process could be started
    assert_lost(serve(bad("raises_when_built")), f"bad was given up after {pool.GIVE_UP_AFTER} failures")


def test_a_tenants_output_has_no_effect(serve, bench):
    records = serve(bad("prints"))
    assert not {"tenants_alive", "requests_succeed"} & set(records.trial["failed_checks"])
    assert recorded(records, "bad") > 5, "each printed two megabytes, of which few are characters"
    [one] = bench._pool._pooled
    assert os.fstat(one.host._log.fileno()).st_size <= host_process.LOG_KEPT_BYTES, "nor does it fill the disk"


def test_a_tenant_that_writes_into_everything_it_holds_harms_only_itself(serve):
    records = serve(bad("writes_everywhere"))
    assert_lost(records, "bad sent an invalid control message")
    assert_usable(serve(calm()))


def test_a_tenant_cannot_truncate_its_records(serve):
    records = serve(bad("cuts_everything_short"))
    assert_usable(records)
    assert recorded(records, "bad") > 5


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"by": "os._exit"}, "bad ended with exit code 3"),
        ({"by": "sys.exit"}, "bad ended with exit code 3"),
        ({"by": "interrupt"}, "bad was killed by SIGINT (KeyboardInterrupt)"),
        ({"by": "signal", "signal": 40}, "bad was killed by signal 40"),
    ],
    ids=["exit", "SystemExit", "KeyboardInterrupt", "nameless signal"],
)
def test_a_tenant_that_exits(serve, params, sentence):
    assert_lost(serve(bad("leaves", **params)), sentence)


def test_processes_started_by_a_tenant_end_with_it(serve, tmp_path):
    records = serve(bad("has_children"))
    assert_lost(records, "bad was killed by SIGKILL")
    assert [pid for pid in alive_in(tmp_path) if _is_asleep_for_long(pid)] == []


def _is_asleep_for_long(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\0")
    except OSError:
        return False


def test_a_tenant_that_forks_keeps_its_records_to_itself(serve):
    records = serve(bad("forks"))
    assert_usable(records)
    assert records.requests["ok"].all(), "no request of the child is among them"


def test_twenty_failures_after_thousands_of_good_requests_are_not_ignored():
    tenant = CheckedTenant("late", served=5000, failed=20, error="ValueError", gave_up=True)
    [failure] = failures(CheckedTrial((tenant,)))
    assert failure.check.name == "requests_succeed"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="pinning needs two cores")
def test_a_tenant_that_leaves_its_cores_makes_the_trial_invalid(serve):
    records = serve(bad("moves"), calm(), sharing="pinned")
    assert records.trial["verdict"] == "invalid"
    assert records.trial["failed_checks"][0] == "sharing_verified"
    assert records.trial["reasons"][0].startswith("bad may run on cores ")
    assert "as arranged" in records.trial["reasons"][0]


class Sensor:
    """A sensor that stops giving values after this many readings."""

    def __init__(self, name, readings, error):
        self.sensors = (SensorInfo(name, "x", "/sys/made/up", 0.05, "made up"),)
        self._left, self._error = readings, error

    def read(self):
        self._left -= 1
        if self._left < 0:
            raise self._error
        return (1.0,)


def test_lost_and_unreadable_sensors_are_named_and_the_trial_continues(serve, bench):
    gone = Sensor("glow", 2, OSError(19, "No such device"))
    forbidden = Sensor("hum", 0, PermissionError(13, "Permission denied"))
    bench._probes = [gone, forbidden, *bench._probes]
    records = serve(calm())
    assert records.trial["verdict"] == "unstable"
    assert "sensors_present" in records.trial["failed_checks"]
    assert "glow vanished during the trial ([Errno 19] No such device)" in records.trial["reasons"]
    assert "hum vanished during the trial ([Errno 13] Permission denied)" in records.trial["reasons"]
    read = list(records.samples["sensor"])
    assert read.count("glow") == 2, "its earlier values are kept"
    assert read.count("hum") == 0
    assert set(read) - {"glow"}, "the others are read"
    assert recorded(records, "calm") > 10
