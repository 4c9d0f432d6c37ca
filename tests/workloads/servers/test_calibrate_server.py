"""`cotenant calibrate URL`: probes of a server on real sockets, and servers that can't be calibrated."""

import asyncio
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median

import pytest
from click.testing import CliRunner

from cotenant.api.calibrate import calibrate_server, predict_server
from cotenant.api.run import run
from cotenant.cli.main import cli
from cotenant.devices.simulated.solo_times import parse_solo_times
from cotenant.errors import CotenantError, DeviceError
from cotenant.measure.fitting import fit_probes
from cotenant.workloads.servers import engine_probes

SHORT = {"workload": "llama-3.2-1b-mini", "prompt": 64, "tokens": 8, "in_flight": 4, "seconds": 20.0}


@pytest.fixture(autouse=True)
def _on_a_busy_machine(monkeypatch):
    """Other tests slow a scripted server down, too: what that costs is not what these tests are about."""
    monkeypatch.setattr(engine_probes, "_BUSY", 1e9)


class Replies(BaseHTTPRequestHandler):
    def reply(self, code, body):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def running():
    """Starts servers, and stops them at the end."""
    started = []

    def start(server):
        started.append((server, threading.Thread(target=server.serve_forever)))
        started[-1][1].start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server, thread in started:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def answering(running):
    """A server that answers every POST with one status, and lists one model."""

    def start(status):
        class Answers(Replies):
            def do_GET(self):
                self.reply(status if status == 401 else 200, json.dumps({"data": [{"id": "m"}]}).encode())

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.reply(status, json.dumps({"error": {"message": "no"}}).encode())

        return running(ThreadingHTTPServer(("127.0.0.1", 0), Answers))

    return start


def test_a_running_server_is_probed_and_the_file_read_back(scripted, tmp_path):
    server, said = scripted("--ttft", "0.04", "--itl", "0.01"), []
    found = calibrate_server(server.address, **SHORT, say=said.append)
    assert said[0].startswith("Sending at most ")
    assert server.get("/stats")["served"] <= int(said[0].split()[3].replace(",", ""))
    path = tmp_path / "mine.csv"
    path.write_text(found.to_csv())
    rows = parse_solo_times(str(path))
    assert max(row.in_flight for row in rows) == SHORT["in_flight"]
    assert all(row.probe and row.tpot_ms > 9 and row.ttft_ms > 39 for row in rows)
    between, far = predict_server(path, ["32/8 closed(2)", "4096/8 0.5/s"])
    assert between.tpot[0].ms == pytest.approx(10, rel=0.5)
    assert between.ttft[0].ms == pytest.approx(40, rel=0.5)
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


class Engine(ThreadingHTTPServer):
    """Streams tokens of known times, like an engine with one of these properties."""

    daemon_threads = True

    def __init__(
        self,
        *,
        context=None,
        cache=None,
        group=1,
        remembers=False,
        others=0,
        running=0,
        page=None,
        holds=lambda _: 0,
        first_s=0.02,
    ):
        super().__init__(("127.0.0.1", 0), Streams)
        self.context, self.cache, self.group, self.page = context, cache, group, page
        self.remembers, self.others, self.running, self.holds = remembers, others, running, holds
        self.first_s = first_s
        self.seen, self.served = set(), 0

    def metrics(self):
        lines = [
            f"vllm:num_requests_running {self.running}",
            f'vllm:request_success_total{{finished_reason="length"}} {self.served * (1 + self.others)}',
        ]
        if self.cache:
            lines.append(f'vllm:cache_config_info{{kv_cache_size_tokens="{self.cache}"}} 1.0')
        return "\n".join([*lines, ""])


class Streams(Replies):
    def do_GET(self):
        models = {"data": [{"id": "m", **({"max_model_len": self.server.context} if self.server.context else {})}]}
        pages = {"/v1/models": self.server.page or json.dumps(models), "/metrics": self.server.metrics()}
        body = pages.get(self.path, "").encode()
        self.reply(200 if body else 404, body)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt, tokens = str(asked["messages"]), asked["max_tokens"]
        known = self.server.remembers and prompt in self.server.seen
        self.server.seen.add(prompt)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        time.sleep(0.002 if known else self.server.first_s)
        held, waiting = self.server.holds(tokens), []
        for number in range(0, tokens, self.server.group):
            time.sleep(0.002)
            waiting.append({"choices": [{"index": 0, "delta": {"content": "word " * self.server.group}}]})
            if number + 1 >= held:
                self.event(*waiting)
                waiting.clear()
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": tokens}
        self.event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")
        self.server.served += 1

    def event(self, *documents):
        self.wfile.write(b"".join(b"data: " + json.dumps(document).encode() + b"\n\n" for document in documents))


@pytest.fixture
def engine(running):
    return lambda **properties: running(Engine(**properties))


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"context": 70}, r"requests of up to 76 tokens are too long for .* the context of its model holds 70"),
        ({"cache": 48}, r"requests of up to 76 tokens are too long for .* its cache holds 48"),
        ({"group": 4}, "tokens at a time, which hides its steps"),
        ({"running": 2}, "has 2 requests of others"),
        ({"others": 1}, r"answered \d+ requests of others meanwhile"),
        ({"page": "<html>hello</html>"}, "is not a server with the OpenAI API"),
        ({"page": "[1, 2]"}, "does not list models"),
    ],
    ids=["context", "cache", "speculation", "busy", "other traffic", "a web page", "other JSON"],
)
def test_an_engine_that_would_bias_the_fit_is_refused_in_one_sentence(engine, properties, message):
    with pytest.raises(CotenantError, match=message):
        calibrate_server(engine(**properties), **SHORT | {"seconds": 1.0})


def test_a_prefix_cache_is_mentioned_and_a_model_needs_no_place_in_the_catalogue(engine, tmp_path):
    calm = calibrate_server(engine(), **SHORT | {"seconds": 2.0, "workload": None})
    assert not any("prefix cache" in note for note in calm.notes)
    cached = calibrate_server(
        engine(remembers=True, cache=4096, first_s=0.1), **SHORT | {"seconds": 2.0, "workload": None}
    )
    assert any("prefix cache is on" in note for note in cached.notes)
    (tmp_path / "mine.csv").write_text(cached.to_csv())
    assert {row.workload for row in parse_solo_times(str(tmp_path / "mine.csv"))} == {"m"}
    assert cached.fit.settings.blocks == 256
    alone, beside = (predict_server(tmp_path / "mine.csv", ["64/8 closed(2)"], beside=share)[0] for share in (0, 1))
    assert beside.tpot[0].ms == pytest.approx(2 * alone.tpot[0].ms, rel=0.05)  # they share its core evenly


def test_tokens_that_come_together_count_with_the_time_of_the_whole_request(engine, tmp_path):
    """A front end that lacks a core sends an answer at once: its step would seem to take no time."""
    found = calibrate_server(engine(holds=lambda tokens: tokens), **SHORT | {"seconds": 2.0, "workload": None})
    assert all(row.ttft_ms is None and row.tpot_ms is None for row in found.fit.probes)
    assert all(row.ms > 20 + 2 * 8 for row in found.fit.probes)
    assert any("Tokens came together at 6 of 6 loads" in note for note in found.notes)
    (tmp_path / "mine.csv").write_text(found.to_csv())
    [predicted] = predict_server(tmp_path / "mine.csv", ["64/8 closed(2)"])
    whole_ms = predicted.ttft[0].ms + 7 * predicted.tpot[0].ms
    assert whole_ms == pytest.approx(next(row.ms for row in found.fit.probes if row.in_flight == 2), rel=0.3)


def test_the_first_tokens_that_come_together_are_told_apart_by_the_later_ones(engine):
    """Of 12 tokens, 5 with the fifth: the first came four steps before."""
    url = engine(holds=lambda tokens: 5)
    client = engine_probes.EngineProbes(url, None, headers={}).client(64, 12)

    async def several():
        requests = [await engine_probes.timed_request(client, number) for number in range(30)]
        await client.close()
        return requests

    # A busy machine reads some answers at one go: those have only their whole time.
    requests = [request for request in asyncio.run(several()) if request.tpot_ms is not None]
    assert requests
    ratios = [request.ttft_ms / (request.ms - 11 * request.tpot_ms) for request in requests]
    assert ratios == pytest.approx([1.0] * len(ratios))
    assert median(request.ms / request.tpot_ms for request in requests) == pytest.approx(10 + 12, rel=0.5)


def test_another_machine_is_asked_about_before_anything_is_sent():
    asked = []
    with pytest.raises(DeviceError, match=r"nothing was sent to 192\.0\.2\.1, another machine"):
        calibrate_server("http://192.0.2.1:8000", **SHORT, agree=lambda question: bool(asked.append(question)))
    assert "requests with" in asked[0]


@pytest.mark.slow
def test_a_run_of_a_live_server_calibrates_it_too(scripted, tmp_path):
    server = scripted("--ttft", "0.02", "--itl", "0.004")
    tenant = "{{workload: 'openai:{}', seq: {}, tokens: 8, load: closed({})}}"
    loads = {"short": (16, 1), "long": (128, 1), "some": (64, 2), "many": (64, 4)}
    lines = [f"  {name}: {tenant.format(server.address, *load)}" for name, load in loads.items()]
    study = tmp_path / "live.yaml"
    study.write_text("\n".join(["device: cpu", "tenants:", *lines, "mixes: [solo]", "window: 2s", "blocks: 3", ""]))
    folder = run(study, out=tmp_path, quiet=True).folder
    found = fit_probes(folder)
    assert {(row.seq, row.in_flight) for row in found.fit.probes} == set(loads.values())
    assert all(row.tpot_ms == pytest.approx(4, rel=0.5) for row in found.fit.probes)
    result = CliRunner().invoke(cli, ["calibrate", str(folder), "--predict", "64/8 closed(3)"])
    assert "tpot p50 ms" in result.output
    assert "us per step" in CliRunner().invoke(cli, ["calibrate", str(folder)]).output
