"""`cotenant view` as a user starts and stops it."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request

import pytest

from cotenant.cli.main import main
from cotenant.errors import RunFolderError
from cotenant.reporting.browser import site as view_site
from cotenant.reporting.browser.server import ViewServer
from tests.support import pace


@pytest.fixture(autouse=True)
def _keep_priority(monkeypatch):
    """The command lowers the priority of its process, which here is that of all tests."""
    monkeypatch.setattr("os.nice", lambda _: 0)


def test_it_prints_its_address_answers_and_ends_with_ctrl_c(runs):
    with subprocess.Popen(
        [sys.executable, "-m", "cotenant.cli.main", "view", str(runs), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 (one thread)
    ) as process:
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url, timeout=pace.seconds(60)) as answer:
            assert b"pairs/monday" in answer.read()
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=pace.seconds(60))
    assert process.returncode == 0
    assert out == ""
    assert "Ctrl-C ends it" in err
    assert "Traceback" not in err


def test_a_program_gets_the_address_as_json(runs, capsys, monkeypatch):
    monkeypatch.setattr(ViewServer, "serve_forever", lambda _: None)
    assert main(["view", str(runs), "--port", "0", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["url"].startswith("http://127.0.0.1:")
    assert said["directory"] == str(runs.resolve())


def test_a_port_in_use_is_a_sentence(runs, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["view", str(runs), "--port", str(port)]) == 1
    said = capsys.readouterr().err
    assert f"Port {port} of 127.0.0.1 is in use." in said
    assert "--port 0" in said


@pytest.mark.parametrize(("name", "sentence"), [("nowhere", "There is no folder"), ("file", "is a file, not a folder")])
def test_a_missing_folder_is_a_sentence(tmp_path, capsys, name, sentence):
    (tmp_path / "file").write_text("")
    assert main(["view", str(tmp_path / name)]) == 1
    assert sentence in capsys.readouterr().err


def test_an_invalid_port_is_a_sentence(tmp_path, capsys):
    assert main(["view", str(tmp_path), "--port", "70000"]) == 1
    assert "70000" in capsys.readouterr().err


def test_shutdown_waits_for_answers_in_progress(serve, runs, monkeypatch):
    """A thread left behind in the database would abort the process."""
    site = serve(runs)
    inside, go_on = threading.Event(), threading.Event()
    made = []

    def slow(_):
        inside.set()
        go_on.wait(pace.seconds(60))
        made.append("answer")
        raise RunFolderError("no")

    monkeypatch.setattr(view_site, "compared_runs", slow)
    keys = "&".join(f"run={site.key(name)}" for name in ("pairs/monday", "pairs/tuesday"))
    threading.Thread(target=site.ask, args=(f"/compare?{keys}",)).start()
    assert inside.wait(pace.seconds(60))
    ending = threading.Thread(target=site.server.site.close)
    ending.start()
    assert site.ask("/").status == 503
    assert ending.is_alive()
    go_on.set()
    ending.join(pace.seconds(60))
    assert made == ["answer"]
