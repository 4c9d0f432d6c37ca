"""What an operator of `cotenant serve` sees on stderr without asking for it."""

import asyncio
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import urllib.request
from contextlib import contextmanager

from tests.serving.backends.behind import scripted
from tests.support import pace

ASK = {"inputs": [{"name": "ids", "datatype": "INT64", "shape": [1, 1], "data": [1]}]}


@contextmanager
def backend():
    """A scripted server in a thread; yields its port."""
    ports = queue.Queue()

    async def serve():
        stop = asyncio.Event()
        async with scripted(sleep_s=0.001) as (_, port):
            ports.put((port, lambda: loop.call_soon_threadsafe(stop.set)))
            loop = asyncio.get_running_loop()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    port, stop = ports.get(timeout=pace.seconds(20))
    try:
        yield port
    finally:
        stop()
        thread.join(pace.seconds(20))


def test_a_server_says_what_was_rejected_how_objectives_fared_and_where_the_record_is(tmp_path):
    with backend() as port:
        address = f"http://127.0.0.1:{port}"
        good = f"tenants: {{net: {{slo: 20s, backend: {{v2: '{address}', model: scripted, cost: 5ms}}}}}}\n"
        file = tmp_path / "tenants.yaml"
        file.write_text(good)
        command = [sys.executable, "-m", "cotenant.cli.main", "serve", str(file), "--port", "0"]
        process = subprocess.Popen(
            [*command, "--record", str(tmp_path / "runs")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            url = process.stdout.readline().strip()
            for _ in range(3):
                request = urllib.request.Request(f"{url}/v2/models/net/infer", json.dumps(ASK).encode())
                with urllib.request.urlopen(request, timeout=pace.seconds(60)) as answer:
                    assert answer.status == 200
            file.write_text(good.replace("20s", "soon"))
            process.send_signal(signal.SIGHUP)
            said = []
            for line in process.stderr:
                said.append(line)
                if "rejected" in line:
                    break
            process.send_signal(signal.SIGTERM)
            _, rest = process.communicate(timeout=pace.seconds(60))
        finally:
            process.kill()
            process.wait()
    rejected = said[-1]
    assert rejected[:4].isdigit(), "with the time"
    assert "WARNING cotenant.serving.reloader: the file was rejected, and nothing changes" in rejected
    assert "soon" in rejected
    assert "net: 3 of 3 requests in time (100 %)" in rest
    assert "record: " in rest
    assert str(tmp_path / "runs" / "served") in rest
    assert "nanobind" not in rest
    assert process.returncode == 0
