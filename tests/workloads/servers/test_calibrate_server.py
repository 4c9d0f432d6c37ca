"""`cotenant calibrate URL`: probes of a server on real sockets, and servers that can't be calibrated."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import CliRunner

from cotenant.api.calibrate import calibrate_server, predict_server
from cotenant.cli.main import cli
from cotenant.devices.simulated.solo_times import solo_times
from cotenant.errors import CotenantError, DeviceError

SHORT = {"workload": "llama-3.2-1b-mini", "prompt": 64, "tokens": 8, "in_flight": 4, "seconds": 20.0}


@pytest.fixture
def answering():
    """A server that answers every POST with one status, and lists one model."""
    running = []

    def start(status):
        class Answers(BaseHTTPRequestHandler):
            def do_GET(self):
                self.reply(status if status == 401 else 200, {"data": [{"id": "m"}]})

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.reply(status, {"error": {"message": "no"}})

            def reply(self, code, document):
                body = json.dumps(document).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        running.append((server, threading.Thread(target=server.serve_forever)))
        running[-1][1].start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_running_server_is_probed_and_the_file_read_back(scripted, tmp_path):
    server, said = scripted("--ttft", "0.04", "--itl", "0.01"), []
    found = calibrate_server(server.address, **SHORT, say=said.append)
    assert said[0].startswith("Sending at most ")
    assert server.get("/stats")["served"] <= int(said[0].split()[3].replace(",", ""))
    path = tmp_path / "mine.csv"
    path.write_text(found.to_csv())
    rows = solo_times(str(path))
    assert max(row.in_flight for row in rows) == SHORT["in_flight"]
    assert all(row.probe and row.tpot_ms > 9 and row.ttft_ms > 39 for row in rows)
    between, far = predict_server(path, ["32/8 closed(2)", "4096/8 0.5/s"])
    assert between.tpot_ms[0] == pytest.approx(10, rel=0.25)
    assert between.ttft_ms[0] == pytest.approx(40, rel=0.3)
    assert between.beyond is None
    assert "prompts of up to" in far.beyond
    shown = CliRunner().invoke(cli, ["calibrate", str(path), "--predict", "32/8 closed(2)"])
    assert "tpot p50 ms" in shown.output
    for wrong in ("32 closed(2)", "32/8 closed(x)"):
        with pytest.raises(DeviceError, match="load"):
            predict_server(path, [wrong])


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "refuses the key"),
        (403, "refuses the key"),
        (429, r"limits its requests \(429\)"),
        (404, "doesn't serve `m` there"),
    ],
)
def test_a_server_that_refuses_is_named_in_one_sentence(answering, status, message):
    with pytest.raises(CotenantError, match=message):
        calibrate_server(answering(status), **SHORT)


def test_a_server_that_streams_rubbish_or_lacks_the_model_writes_nothing(scripted, tmp_path):
    out, server = tmp_path / "mine.csv", scripted("--fault", "rubbish")
    shared = ["--workload", "llama-3.2-1b-mini", "--for", "5s", "--out", str(out)]
    for more, message in ((["--model", "other"], "has no model `other`"), ([], "which is not JSON")):
        result = CliRunner().invoke(cli, ["calibrate", server.address, *shared, *more])
        assert result.exit_code != 0
        assert message in str(result.output) + str(result.exception)
    assert not out.exists()


def test_another_machine_is_asked_about_before_anything_is_sent():
    asked = []
    with pytest.raises(DeviceError, match=r"nothing was sent to 192\.0\.2\.1, another machine"):
        calibrate_server("http://192.0.2.1:8000", **SHORT, agree=lambda question: bool(asked.append(question)))
    assert "requests with" in asked[0]
