"""`--probe` pauses a neighbour, counts the pause as idle, and leaves nothing stopped."""

import subprocess
import sys
import threading
import time

import psutil
import pytest
from click.testing import CliRunner

from cotenant.cli.main import cli
from cotenant.errors import WatchError
from cotenant.measure.watch import probe
from tests.measure.watch.driving import traffic
from tests.measure.watch.test_watch_servers import session_of
from tests.support import pace

STOPS = """
import sys, time
from cotenant.measure.watch.probe import Paused
Paused(int(sys.argv[1])).stop()
print("stopped", flush=True)
time.sleep(60)
"""


def stopped(process):
    return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED


def longest_pause_s(totals):
    """The longest time over which readings agree that nothing was added."""
    longest, since = 0.0, 0
    for at in range(1, totals.t_s.size):
        if totals.value[at] > totals.value[at - 1]:
            since = at
        longest = max(longest, totals.t_s[at] - totals.t_s[since])
    return longest


def test_a_reading_under_way_ends_before_the_server_is_stopped(app_process, tmp_path, monkeypatch):
    _, url = app_process()
    with session_of(tmp_path, f"train={url}") as session:
        [page] = session.targets.pages
        fetch, fetching, answered = page.fetch, threading.Event(), threading.Event()

        def slow():
            fetching.set()
            assert answered.wait(pace.seconds(60))
            return fetch()

        monkeypatch.setattr(page, "fetch", slow)
        assert fetching.wait(pace.seconds(60))
        pausing = threading.Thread(target=page.pause)
        pausing.start()
        pausing.join(0.2)
        assert pausing.is_alive()
        answered.set()
        pausing.join(pace.seconds(60))
        assert not pausing.is_alive()
        fetching.clear()
        page.read()
        assert not fetching.is_set()  # repeated, not asked
        page.go_on()


def test_a_neighbour_is_paused_and_its_pause_counts_as_idle(app_process, tmp_path, monkeypatch):
    monkeypatch.setattr(probe, "USUAL", (2, 4.0))
    (chat, chat_url), (train, train_url) = app_process(), app_process()
    states = []
    with (
        traffic(chat_url),
        traffic(train_url),
        session_of(tmp_path, f"chat={chat_url}", f"train={train_url}") as session,
    ):
        wait = session.wait

        def waits(seconds):
            states.append(len(states) % 2 == 1)
            pace.until(lambda: stopped(train) == states[-1])  # a signal takes a moment
            wait(seconds)

        monkeypatch.setattr(session, "wait", waits)
        probe.probe_tenant(session, "train", first_s=1.0)
        watched = session.watched()
        [requests] = [track.totals().totals["requests"] for track in session.targets.tracks if track.tenant == "train"]
    assert states == [False, True, False, True, False]
    assert not stopped(train)
    assert not stopped(chat)
    assert "train was paused 2 times for 4 s." in session.notes()
    assert longest_pause_s(requests) > 3
    assert watched.tenants[1].unknown_s < 4  # the pause isn't a gap


def test_a_paused_process_goes_on_if_the_one_that_paused_it_dies(app_process):
    process, _ = app_process()
    killer = subprocess.Popen([sys.executable, "-c", STOPS, str(process.pid)], stdout=subprocess.PIPE, text=True)
    assert killer.stdout.readline() == "stopped\n"
    assert stopped(process)
    killer.kill()
    killer.wait()
    killer.stdout.close()
    pace.until(lambda: not stopped(process))


def test_what_cannot_be_paused_is_refused_before_anything_is_stopped(app_process, tmp_path):
    process, url = app_process()
    with session_of(tmp_path, f"chat={url}") as session:
        began = time.monotonic()
        with pytest.raises(WatchError, match="nothing called 'train' is watched") as raised:
            probe.probe_tenant(session, "train")
        assert raised.value.hint == "one of chat"
        assert time.monotonic() - began < pace.seconds(30)
    with pytest.raises(WatchError, match="this program runs in it"):
        probe.Paused(psutil.Process().parents()[0].pid)
    assert not stopped(process)


def test_prometheus_cannot_probe():
    said = CliRunner().invoke(cli, ["watch", "--prometheus", "localhost:9090", "--probe", "chat"])
    assert said.exit_code == 2
    assert "--probe needs servers that run on this machine" in said.output
