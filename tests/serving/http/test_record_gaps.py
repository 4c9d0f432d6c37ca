"""Requests that can't be written are kept, then missed: a fact that the run, the server and every verb state."""

import asyncio
import errno
import logging

import pytest

from cotenant.cli.main import main
from cotenant.reporting.terminal.server import closing_lines, status_parts
from cotenant.serving import recording
from cotenant.serving.recording import Recorder
from cotenant.serving.tickets import RequestOutcome
from cotenant.store.folder import RunFolder
from cotenant.store.integrity import Gap, gaps_of, with_gap
from tests.serving.http.front import front
from tests.serving.http.test_recording import FILE

SERVED = RequestOutcome("gpt", 1.0, 1.0, 1.0, 1.1, 0.1, 0.1, True, None, 1)
FULL = "no space left on device"


class Disk:
    """Refuses new trials while it is full."""

    def __init__(self, monkeypatch):
        self.full = False
        writing = RunFolder._write

        def write(folder, trials, at):
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            writing(folder, trials, at)

        monkeypatch.setattr(RunFolder, "_write", write)


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


def recorded(root, scenario):
    """Run a scenario with a client and a function that serves so many requests and ends the interval."""

    async def run():
        async with front() as client:
            recorder = Recorder(client.service, FILE, root)
            recorder.open()
            client.service.record = recorder.state

            async def serve(requests):
                for _ in range(requests):
                    client.service.measures.add(SERVED)
                await recorder.cut()

            result = await scenario(client, serve)
            await recorder.close()
            return recorder.path, result, closing_lines(client.service)

    return asyncio.run(run())


def test_a_disk_that_is_full_for_a_while_costs_nothing(tmp_path, disk, capsys):
    async def scenario(client, serve):
        disk.full = True
        await serve(40)
        failing = (await client.get("/status")).json()
        disk.full = False
        await serve(11)
        return failing, (await client.get("/status")).json()["record"]

    path, (failing, after), _ = recorded(tmp_path, scenario)
    assert (failing["record"]["unwritten"], failing["record"]["failing"]) == (40, FULL)
    assert f"requests can't be recorded: {FULL}; 40 are kept in memory" in status_parts(failing)[0].plain
    assert (after["recorded"], after["missing"], after["failing"]) == (51, 0, None)
    assert main(["verify", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: whole, 2 trials\n"


def test_requests_that_are_lost_are_stated_by_the_server_the_run_and_the_verbs(
    tmp_path, disk, monkeypatch, capsys, caplog
):
    monkeypatch.setattr(recording, "MOST_KEPT", 30)

    async def scenario(client, serve):
        await serve(6)
        disk.full = True
        await serve(20)
        await serve(20)
        ready = await client.get("/readyz")
        lost = [(await client.get("/status")).json(), (await client.get("/metrics")).body.decode()]
        disk.full = False
        await serve(5)
        return ready, lost

    with caplog.at_level(logging.WARNING, "cotenant"):
        path, (ready, (status, metrics)), closing = recorded(tmp_path, scenario)
    [gap] = gaps_of(RunFolder.open(path).manifest)
    words = f"20 of 51 requests are missing: {FULL} from {gap.from_utc} to {gap.to_utc}"
    assert (ready.status, ready.json()["requests_not_recorded"]) == (200, 20), "it still serves"
    assert "cotenant_requests_not_recorded_total 20\n" in metrics
    assert "cotenant_record_failing 1\n" in metrics
    assert f"20 requests missing from {path}" in status_parts(status)[0].plain
    assert f"record: {path}, 31 requests, 20 missing" in closing
    assert f"20 requests are missing from the record: {FULL}" in caplog.messages
    assert main(["verify", str(path)]) == 2
    assert capsys.readouterr().out == f"{path}: incomplete, 3 trials\n  {words}\n"
    assert main(["show", str(path)]) == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_what_is_lost_at_the_end_is_stated_too(tmp_path, disk, capsys):
    async def scenario(_, serve):
        await serve(3)
        disk.full = True
        await serve(4)

    path, _, closing = recorded(tmp_path, scenario)
    assert closing[-1] == f"record: {path}, 3 requests, 4 missing"
    assert main(["verify", str(path)]) == 2
    assert "4 of 7 requests are missing" in capsys.readouterr().out


def test_any_other_failure_does_not_end_the_recording(tmp_path, monkeypatch):
    commit, failures = RunFolder.commit, [MemoryError("no memory")]

    def fails_once(folder, *trials):
        if failures:
            raise failures.pop()
        commit(folder, *trials)

    monkeypatch.setattr(RunFolder, "commit", fails_once)

    async def scenario(client, serve):
        await serve(2)
        await serve(3)
        return client.service.record()

    _, record, _ = recorded(tmp_path, scenario)
    assert (record["recorded"], record["missing"]) == (5, 0)


def test_gaps_that_follow_each_other_are_one():
    first, second = Gap(2, "a", "b", FULL), Gap(3, "b", "c", FULL)
    assert with_gap([first], second) == (Gap(5, "a", "c", FULL),)
    later = Gap(1, "d", "e", FULL)
    assert with_gap([first], later) == (first, later)


def test_a_damaged_statement_of_gaps_is_ignored():
    assert gaps_of({"gaps": [{"requests": "many"}, None, {"requests": -1}]}) == ()
