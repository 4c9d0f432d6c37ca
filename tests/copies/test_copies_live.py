"""`copies` with real processes: servers whose limit is known, and everything that can go wrong with their starts."""

import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from cotenant import copies
from cotenant.errors import StudyError, TenantFailed
from cotenant.measure.events import TrialStarted
from tests.support import pace

pytestmark = pytest.mark.slow
SERVER = Path(__file__).with_name("server.py")


@pytest.fixture
def measured(tmp_path):
    def measure(*options, **more):
        (tmp_path / "state").mkdir(exist_ok=True)
        words = [sys.executable, str(SERVER), "--port", "{port}", "--state", str(tmp_path / "state"), *options]
        asked = {"up_to": 2, "workload": "http:/work", "window_s": 1.0, "blocks": (3, 3), "sharing": ["processes"]}
        return copies(" ".join(words), out=tmp_path / "runs", **{**asked, **more})

    yield measure
    assert [one for one in psutil.process_iter(["cmdline"]) if str(tmp_path) in (one.info["cmdline"] or ())] == []


def test_two_copies_of_a_server_bound_by_one_thread_pay_and_the_script_starts_them(measured, tmp_path):
    answer = measured(sharing=[], port=18431)
    assert answer.verdict == "copies", answer.headline
    assert answer.chosen.copies == 2
    assert 1.7 < answer.chosen.gain.est < 2.3
    assert {option.sharing for option in answer.options} == {"alone", "processes", "pinned"}
    try:
        subprocess.run([answer.script, "up"], check=True, capture_output=True, timeout=pace.seconds(60))
        for port in (18431, 18432):
            assert urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=pace.seconds(5)).status == 200
    finally:
        subprocess.run([answer.script, "down"], check=True, capture_output=True, timeout=pace.seconds(60))
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen("http://127.0.0.1:18431/", timeout=pace.seconds(1))


def test_copies_of_a_server_that_has_the_whole_device_do_not_pay(measured):
    answer = measured("--limit", "device")
    assert answer.verdict == "one copy", (answer.headline, answer.options)
    assert "more don't pay" in answer.headline[0]


def test_a_server_that_dies_at_every_third_start_is_not_recommended(measured):
    answer = measured("--dies-every", "3")
    assert answer.chosen is None or answer.chosen.copies == 1
    [two] = [option for option in answer.options if option.copies == 2]
    assert two.reliability.failed >= 1
    assert "failed" in two.against(0.1)
    assert "no luck today" in two.reliability.why


def test_a_second_copy_with_half_the_cache_is_noticed(measured):
    answer = measured("--halves")
    [two] = [option for option in answer.options if option.copies == 2]
    assert "num gpu blocks differ: server#1: 4,096; server#2: 2,048" in two.against(0.1)
    assert answer.verdict == "one copy"


def test_one_copy_that_is_not_saturated_is_no_baseline(measured):
    answer = measured("--limit", "none", load="closed(2)")
    assert answer.verdict == "no baseline"
    assert "isn't saturated" in answer.headline[0]
    assert answer.options == ()  # nothing was compared with it


def test_memory_that_ends_at_copy_3_is_a_result(measured):
    answer = measured("--room", "2", up_to=3)
    assert answer.chosen.copies == 2
    assert answer.limit == "Memory is the limit: 3 copies didn't fit."


@pytest.mark.parametrize(
    ("options", "why"),
    [(["--locks"], "the cache folder is locked"), (["--second-port", "18433"], "Address already in use")],
)
def test_copies_that_are_in_each_others_way_fail_with_their_last_words(measured, options, why):
    answer = measured(*options, blocks=(2, 2))
    assert answer.chosen is None or answer.chosen.copies == 1
    [two] = [option for option in answer.options if option.copies == 2]
    assert two.reliability.failed == two.reliability.starts
    assert why in two.reliability.why


def test_ctrl_c_while_copies_are_measured_leaves_nothing(measured, tmp_path):
    state, asked = str(tmp_path / "state"), threading.Event()

    def stop():
        while sum(state in (one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])) < 2:
            time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    def listen(event):
        if isinstance(event, TrialStarted) and not asked.is_set():
            asked.set()
            threading.Thread(target=stop, daemon=True).start()

    with pytest.raises(KeyboardInterrupt):
        measured(rate="20/s", window_s=20.0, listener=listen)
    assert asked.is_set()


def test_a_command_that_returns_is_refused_and_leaves_nothing(measured):
    with pytest.raises(TenantFailed, match="stay in the foreground"):
        measured("--forks")


def test_a_server_that_ignores_sigterm_is_killed(measured):
    assert measured("--stubborn", blocks=(2, 2)).verdict in {"copies", "open"}


def test_a_rate_is_divided_among_the_copies(measured):
    answer = measured("--limit", "none", rate="20/s")
    assert answer.verdict == "one copy", answer.headline
    [two] = [option for option in answer.options if option.copies == 2]
    assert two.held


def test_a_command_without_a_port_is_refused(tmp_path):
    with pytest.raises(StudyError, match=r"no \{port\}"):
        copies("vllm serve model", out=tmp_path)
