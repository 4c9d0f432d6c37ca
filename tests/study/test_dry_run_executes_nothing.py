"""A dry run of an untrusted study: nothing that it names is imported, started, loaded or contacted."""

import contextlib
import socket
import threading

import pytest

from cotenant.cli.main import main

MINE = "from pathlib import Path\nPath('was-imported').touch()\n\ndef serve(batch):\n    return lambda: None\n"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def study(workload, path):
    path.write_text(f"name: theirs\ntenants:\n  a: {{workload: '{workload}'}}\nmixes: [solo]\n")
    return str(path)


def test_code_that_the_study_names_is_not_imported(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(MINE)
    assert main(["run", study("mine:serve", tmp_path / "s.yaml"), "--dry-run"]) == 0
    assert not (tmp_path / "was-imported").exists()
    assert 'not checked: tenant "a": `mine:serve` was not imported' in capsys.readouterr().out


def test_a_missing_module_is_detected_by_the_run(tmp_path, capsys):
    assert main(["run", study("no.such:thing", tmp_path / "s.yaml"), "--dry-run"]) == 0
    assert "was not imported" in capsys.readouterr().out


def test_a_server_that_the_study_names_is_not_contacted(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        came = []

        def listen():
            with contextlib.suppress(TimeoutError):
                came.append(server.accept())

        listener = threading.Thread(target=listen)
        listener.start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        assert main(["run", study(address, tmp_path / "s.yaml"), "--dry-run", "--json"]) == 0
        listener.join()
    assert came == []
    assert "was not contacted" in capsys.readouterr().out


def test_a_command_is_not_started(tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\ntouch was-started\n")
    program.chmod(0o755)
    assert main(["run", study(f"command:{program}", tmp_path / "s.yaml"), "--dry-run"]) == 0
    assert not (tmp_path / "was-started").exists()


def test_errors_in_the_study_itself_are_still_refused(tmp_path, capsys):
    (tmp_path / "s.yaml").write_text(
        "tenants:\n  a: {workload: 'mine:serve', params: {stated: {memory: lots}}}\nmixes: [solo]\n"
    )
    assert main(["run", str(tmp_path / "s.yaml"), "--dry-run"]) == 1
    assert "memory" in capsys.readouterr().err
