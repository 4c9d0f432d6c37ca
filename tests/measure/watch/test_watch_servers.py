"""Watching real servers: what is read, what is stored, and what goes wrong."""

import os
import signal
import subprocess
import sys
import urllib.request

import psutil
import pytest
from click.testing import CliRunner

import cotenant
from cotenant.cli.main import cli
from cotenant.errors import RunFolderError, WatchError
from cotenant.measure.watch.watch_session import WatchSession
from cotenant.store.folder import RunFolder
from tests.measure.watch.driving import address_of, traffic
from tests.support import pace

METRIC = "http_request_duration_seconds"


def session_of(tmp_path, *words, histograms=(METRIC,), device="cpu"):
    from cotenant.clients.published import named_histogram

    return WatchSession(
        words, device=device, every_s=1.0, histograms=[named_histogram(one) for one in histograms], root=tmp_path
    )


def test_a_server_is_watched_stored_shown_and_reported(app, app_process, tmp_path):
    process, url = app_process()
    with traffic(url):
        found = cotenant.watch(f"embed={url}", device="cpu", seconds=4, every_s=1, histograms=[METRIC], out=tmp_path)
    [tenant] = found.tenants
    assert tenant.tenant == "embed"
    assert tenant.requests > 20
    assert tenant.mean_ms >= 5
    assert tenant.facts["pid"] == process.pid
    assert tenant.cores > 0
    assert 5 <= tenant.quantiles_ms["p50"] <= 100
    assert tenant.first_bound_ms == 5
    again = cotenant.show_watched(found.folder)
    assert again.tenants[0].requests == tenant.requests
    assert again.tenants[0].mean_ms == pytest.approx(tenant.mean_ms)
    assert again.tenants[0].quantiles_ms == pytest.approx(tenant.quantiles_ms)
    assert "Only embed was watched" in again.to_json()["answer"][0]
    page = cotenant.report(found.folder).html.read_text()
    assert "embed" in page
    assert "basis: watched" in page
    assert not cotenant.verify([found.folder])[0].damaged
    shown = CliRunner().invoke(cli, ["show", str(found.folder)])
    assert shown.exit_code == 0
    assert "embed" in shown.output


def test_nothing_is_locked_and_nothing_sent_but_reads_of_metrics(app, tmp_path, monkeypatch):
    locks = tmp_path / "locks"
    locks.mkdir()
    monkeypatch.setenv("COTENANT_LOCKS", str(locks))
    server = app()
    asked = []
    page = server.page
    server.page = lambda: asked.append("page") or page()
    server.observe = lambda seconds: asked.append("work")
    with session_of(tmp_path, address_of(server)) as session:
        session.wait(3)
        held = list(locks.iterdir())
    assert held == []
    assert set(asked) == {"page"}
    assert len(asked) <= 7  # two when it starts, then one a second


def test_several_words_that_are_wrong_are_one_sentence_each_and_the_rest_goes_on(app, tmp_path):
    server = app()
    with session_of(
        tmp_path, address_of(server), "999999999", "http://127.0.0.1:1", f"{address_of(server)}/nothing", "what"
    ) as session:
        session.wait(1)
        notes = session.notes()
    assert len(notes) == 4
    assert "There is no process 999999999." in notes
    assert any("doesn't answer" in note for note in notes)
    assert any("status 404" in note for note in notes)
    assert any("neither a process nor an address" in note for note in notes)
    assert len(session.watched().tenants) == 1


def test_nothing_to_watch_is_an_error_with_a_hint(app, tmp_path):
    server = app()
    with pytest.raises(WatchError, match="publishes no metrics") as raised:
        session_of(tmp_path, address_of(server), histograms=())
    assert raised.value.hint == f"name its histogram of request times: --histogram {METRIC}"
    with pytest.raises(WatchError, match="publishes no http_seconds, and no metrics of vLLM"):
        session_of(tmp_path, address_of(server), histograms=("http_seconds",))
    server.page = lambda: "up 1\n"
    with pytest.raises(WatchError) as raised:
        session_of(tmp_path, address_of(server))
    assert "name its PID" in raised.value.hint
    assert list(tmp_path.iterdir()) == []  # no empty run is left


def test_a_process_finds_its_own_page_and_one_without_counts_as_a_neighbour(app_process, tmp_path):
    process, url = app_process()
    with traffic(url), session_of(tmp_path, f"web={process.pid}", f"me={os.getpid()}") as session:
        session.wait(3)
    web, me = session.watched().tenants
    assert (web.tenant, web.software) == ("web", "histogram")
    assert web.requests > 0
    assert (me.tenant, me.software, me.requests) == ("me", "process", None)
    assert me.cores > 0
    assert any("publishes no metrics" in note for note in session.notes())


def test_servers_of_this_machine_are_found_without_naming_them(app_process, tmp_path):
    _, url = app_process()
    with session_of(tmp_path) as session:
        session.wait(1)
    assert url.removeprefix("http://") in {track.facts["url"].split("/")[2] for track in session.targets.tracks}


def test_a_server_that_restarts_while_watched_is_noted_and_counted_right(app, tmp_path):
    server = app()
    url = address_of(server)
    with session_of(tmp_path, url) as session:
        track = session.targets.tracks[0]
        with traffic(url):
            pace.until(lambda: track.latest()["requests"][1] > 20)
            before = track.latest()["requests"][1]
        server.reset()
        pace.until(lambda: track.latest()["requests"][1] < before)
        with traffic(url):
            pace.until(lambda: track.latest()["requests"][1] > 0)
            session.wait(2)
        [tenant] = session.watched().tenants
    assert tenant.restarts == 1
    assert tenant.requests >= before
    assert tenant.mean_ms > 0


def test_a_server_that_goes_away_and_comes_back_is_noted_and_its_new_process_read(app_process, tmp_path):
    process, url = app_process()
    port = int(url.rpartition(":")[2])
    with session_of(tmp_path, url) as session:
        session.wait(2)
        process.kill()
        process.wait()
        pace.until(lambda: any("doesn't answer" in note for note in session.notes()))
        assert f"Process {process.pid} has ended." in session.notes()
        later, _ = app_process(port)
        pace.until(lambda: any("answers again" in note for note in session.notes()))
        said = f"Process {process.pid} ended, and process {later.pid} serves in its place."
        pace.until(lambda: said in session.notes())
        [track] = session.targets.tracks
        read_s = track.latest()["cpu_s"][0]
        pace.until(lambda: track.latest()["cpu_s"][0] > read_s)
    assert track.facts["pid"] == later.pid


def test_names_from_a_page_are_harmless_in_mixes_and_on_the_page(app, tmp_path):
    from cotenant.measure.watch.targets import own_name

    assert own_name("meta-llama/Llama-3.1-8B", "host:1", ()) == "Llama-3.1-8B"
    assert own_name("a+b#c[d] e", "host:1", ()) == "a-b-c-d-e"
    assert own_name("x", "host:1", {"x"}) == "x@host:1"
    assert own_name("x", "host:1", {"x", "x@host:1"}) == "x@host:1-2"
    assert own_name("/", "host:1", ()) == "host:1"


def test_what_the_program_costs_stays_below_a_hundredth_of_a_core(app, tmp_path):
    import time

    servers = [app(), app()]
    with session_of(tmp_path, *(address_of(one) for one in servers)) as session:
        session.wait(1)
        began = time.thread_time()
        pages = session.targets.pages
        readings = 50
        for _ in range(readings):
            pages[0].read()
        spent = (time.thread_time() - began) / readings
    assert 2 * spent < 0.01  # two pages a second


def test_rates_that_came_are_planned_with(app_process, tmp_path):
    from cotenant.store.reading import open_runs
    from cotenant.store.watched import traffic_of

    _, url = app_process()
    with traffic(url):
        found = cotenant.watch(f"embed={url}", device="cpu", seconds=3, every_s=1, histograms=[METRIC], out=tmp_path)
    with open_runs([found.folder]) as opened:
        came = traffic_of(opened)["embed"]
    assert came.rate_rps == pytest.approx(found.tenants[0].rate_rps)
    assert came.requests == found.tenants[0].requests


def test_the_command_line_prints_the_answer_warns_on_stderr_and_says_undecided(app, tmp_path):
    url = address_of(app())
    arguments = ["watch", url, "999999999", "--histogram", METRIC, "--for", "2s", "--every", "1", "--device", "cpu"]
    ended = CliRunner().invoke(cli, [*arguments, "--out", str(tmp_path)])
    assert ended.exit_code == 2
    assert "warning: There is no process 999999999." in ended.stderr
    assert "Only" in ended.stdout
    assert "warning" not in ended.stdout
    assert urllib.request.urlopen(url + "/metrics").status == 200  # it still runs


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 2), (signal.SIGTERM, 143)])
def test_ctrl_c_ends_it_with_the_answer_and_a_complete_run(app, tmp_path, number, code):
    arguments = ["watch", address_of(app()), "--histogram", METRIC, "--every", "1", "--device", "cpu"]
    command = [sys.executable, "-m", "cotenant.cli.main", *arguments, "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "watching" in process.stderr.readline()
    process.send_signal(number)
    said, _ = process.communicate(timeout=pace.seconds(60))
    assert process.returncode == code
    [folder] = (tmp_path / "watched").iterdir()
    assert RunFolder.open(folder).manifest["state"] == "complete"
    assert ("Only" in said) == (number == signal.SIGINT)


def test_a_watcher_that_is_killed_loses_nothing(app_process, tmp_path):
    _, url = app_process()
    arguments = ["watch", url, "--histogram", METRIC, "--every", "1", "--device", "cpu", "--out", str(tmp_path)]
    process = subprocess.Popen([sys.executable, "-m", "cotenant.cli.main", *arguments], stderr=subprocess.PIPE)
    assert b"watching" in process.stderr.readline()
    [folder] = (tmp_path / "watched").iterdir()
    [keeper] = psutil.Process(process.pid).children()
    pace.until(lambda: RunFolder.open(folder).manifest["watched"])  # it has kept something
    process.kill()
    process.wait()
    process.stderr.close()
    pace.until(lambda: not keeper.is_running())
    [tenant] = cotenant.show_watched(folder).tenants
    assert tenant.facts["url"].startswith(url)
    assert not cotenant.verify([folder])[0].damaged


def test_readings_that_cannot_be_written_end_it_with_the_reason(app, tmp_path):
    session = session_of(tmp_path, address_of(app()))
    (session.folder / "trials" / "000000").mkdir(parents=True)
    session.__enter__()
    session.wait(2)
    with pytest.raises(RunFolderError, match="already in"):
        session.__exit__(None, None, None)


def test_the_watcher_loads_no_database(app, tmp_path):
    server = app()
    script = (
        "import sys, cotenant\n"
        f"cotenant.watch({address_of(server)!r}, device='cpu', seconds=2, every_s=1, histograms=[{METRIC!r}], "
        f"out={str(tmp_path)!r})\n"
        "print([name for name in ('duckdb', '_duckdb', 'scipy', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    [folder] = (tmp_path / "watched").iterdir()
    assert RunFolder.open(folder).committed() == {0}
