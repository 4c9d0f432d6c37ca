"""`http://...`: any server on the loopback interface, under our load."""

import asyncio
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cotenant.clients.framing import HttpReply
from cotenant.clients.http11 import refused
from cotenant.errors import WorkloadError
from cotenant.workloads.protocol import SENT, WorkloadSpec
from cotenant.workloads.yours import recognise
from tests.support import pace


class Here:
    torch_device = "cpu"
    default_dtype = "float32"


class Handler(BaseHTTPRequestHandler):
    """Answers by path; records the requests."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, body: bytes, status: int = 200, **headers: str):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):  # noqa: C901 - one case for each way a server can behave
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.client_address, self.command, self.path, sent, dict(self.headers)))
        match self.path.split("?")[0]:
            case "/broken":
                self.answer(b"out of memory\nsecond line", status=503)
            case "/moved":
                self.answer(b"", status=301, Location="/new")
            case "/created":
                self.answer(b"made", status=201)
            case "/empty":
                self.answer(b"")
            case "/hangs":
                self.server.released.wait(pace.seconds(5))
            case "/closes":
                self.answer(b"bye", Connection="close")
                self.close_connection = True
            case "/drops":  # promises to keep the connection, and drops it
                self.answer(b"kept?")
                self.close_connection = True
            case "/silent":  # takes the request and closes silently
                self.close_connection = True
            case "/slow":
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(b"5\r\nfirst\r\n")
                if len(self.server.seen) > 1:  # the request sent while building is answered at once
                    self.server.released.wait(pace.seconds(30))
                self.wfile.write(b"4\r\nlast\r\n0\r\n\r\n")
            case "/truncated":
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b"only this")
                self.close_connection = True
            case _:
                self.answer(b"hello " + sent)

    def do_GET(self):
        self.do_POST()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen = []
        self.released = threading.Event()


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield running
        running.released.set()
        running.shutdown()
        thread.join(timeout=pace.seconds(5))


class Asked:
    """A built endpoint, and its client's event loop."""

    def __init__(self, workload, spec) -> None:
        self.built = workload.build(spec, Here())
        self.loop = asyncio.new_event_loop()
        self.marks = []

    def mark(self, slot, at_ns) -> None:
        """Note the order of the marks."""
        assert 0 < at_ns <= time.monotonic_ns()
        self.marks.append(slot)

    def __call__(self, times: int = 1) -> None:
        """Send that many requests at once; raise the first error."""
        self.marks = []

        async def all_of_them():
            client = self.built.client
            await asyncio.gather(*(client.request(number, self.mark) for number in range(times)))

        self.loop.run_until_complete(all_of_them())

    def close(self) -> None:
        self.loop.run_until_complete(self.built.client.close())
        self.loop.close()
        self.built.close()


@pytest.fixture
def built(server):
    opened = []

    def build(path: str, **fields):
        name = f"http://127.0.0.1:{server.server_port}{path}"
        spec = WorkloadSpec(name=name, **fields)
        workload = recognise(name)
        workload.check(spec)
        opened.append(Asked(workload, spec))
        return opened[-1]

    yield build
    for one in opened:
        one.close()


def refusal(call) -> WorkloadError:
    with pytest.raises(WorkloadError) as refused:
        call()
    return refused.value


def test_a_request_is_posted_and_its_answer_read(built, server):
    endpoint = built("/predict?fast=1", batch=2, seq=8)
    assert endpoint.built.client.slots == ("send", "wait", "receive")
    assert endpoint.built.client.slots[endpoint.built.client.first_output] == "wait"
    endpoint()
    assert endpoint.marks == [SENT, 0, 1, 2]
    _, method, path, sent, headers = server.seen[-1]
    assert sent == b'{"batch": 2, "seq": 8, "dtype": null, "seed": 0}'
    assert (method, path, headers["Content-Type"]) == ("POST", "/predict?fast=1", "application/json")


def test_method_body_and_headers_are_the_users(built, server, tmp_path):
    params = {"method": "post", "body": {"inputs": [1, 2]}, "headers": {"X-Model": "a"}}
    built("/", params=params)()
    assert (server.seen[-1][3], server.seen[-1][4]["X-Model"]) == (b'{"inputs": [1, 2]}', "a")
    built("/", params={"body": "plain text"})()
    assert server.seen[-1][3] == b"plain text"
    assert "Content-Type" not in server.seen[-1][4]
    built("/", params={"method": "GET"})()
    assert server.seen[-1][1:4] == ("GET", "/", b"")
    (tmp_path / "body").write_bytes(b"\x00from a file")
    built("/", params={"body_file": str(tmp_path / "body")})()
    assert server.seen[-1][3] == b"\x00from a file"
    assert "Content-Type" not in server.seen[-1][4]


def test_a_file_is_sent_with_the_content_type_of_its_suffix(built, server, tmp_path):
    (tmp_path / "body.json").write_text('{"inputs": [1]}')
    built("/", params={"body_file": str(tmp_path / "body.json")})()
    assert server.seen[-1][4]["Content-Type"] == "application/json"


def test_a_users_header_replaces_ours_in_any_case(built, server):
    built("/", params={"body": {"inputs": [1]}, "headers": {"content-type": "application/x-mine"}})()
    sent = [(name, value) for name, value in server.seen[-1][4].items() if name.lower() == "content-type"]
    assert sent == [("content-type", "application/x-mine")]


def test_a_body_may_number_its_requests(built, server):
    endpoint = built("/", params={"body": "request {{number}}"})
    endpoint()
    endpoint()
    assert [sent for _, _, _, sent, _ in server.seen] == [b"request 0", b"request 1"]


def test_the_connection_is_kept(built, server):
    endpoint = built("/")
    for _ in range(5):
        endpoint()
    assert len({client for client, *_ in server.seen}) == 1


def test_concurrent_requests_have_a_connection_each(built, server):
    endpoint = built("/")
    endpoint(times=4)
    assert len({client for client, *_ in server.seen}) == 4


@pytest.mark.parametrize("path", ["/closes", "/drops"])
def test_a_connection_closed_by_the_server_is_reopened(built, server, path):
    endpoint = built(path)
    for _ in range(3):
        endpoint()
        time.sleep(0.02)  # the server's end of the connection needs a moment to close
    assert len(server.seen) == 3
    assert len({client for client, *_ in server.seen}) == 3


def test_the_first_output_is_the_first_of_the_body(built, server):
    endpoint = built("/slow")
    endpoint()

    async def until_the_first():
        asked = asyncio.ensure_future(endpoint.built.client.request(0, endpoint.mark))
        while 1 not in endpoint.marks:
            await asyncio.sleep(0.001)
        before = list(endpoint.marks)
        server.released.set()  # only now the rest is sent
        await asked
        return before

    endpoint.marks = []
    assert endpoint.loop.run_until_complete(until_the_first()) == [SENT, 0, 1]
    assert endpoint.marks == [SENT, 0, 1, 2]


def test_an_empty_answer_is_an_answer(built):
    endpoint = built("/empty")
    endpoint()
    assert endpoint.marks == [SENT, 0, 1, 2]


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        ("/broken", "http 503", "/broken` answered 503 Service Unavailable: out of memory"),
        ("/silent", "connection", "/silent` closed the connection without an answer: it closed the connection"),
        ("/hangs", "timeout", "/hangs` sent no answer within 0.2 s"),
        ("/truncated", "broken off", "the server closed the connection in the middle of an answer"),
    ],
)
def test_every_failure_has_a_kind_and_a_message(built, path, kind, message):
    error = refusal(built(path, params={"timeout_s": 0.2}))
    assert (error.kind, error.message[-len(message) :]) == (kind, message)


def test_a_redirection_is_named():
    reply = HttpReply(status=301, reason="Moved", headers={"location": "/new"})
    assert refused("http://a", reply).hint == "it redirects to /new: name that address"


def test_a_status_that_is_not_2xx_fails_the_request_and_keeps_the_connection(built, server):
    endpoint = built("/broken")
    for _ in range(2):
        assert "answered 503" in refusal(endpoint).message
    assert len({client for client, *_ in server.seen}) == 1


def test_the_expected_status_can_be_stated(built):
    built("/created", params={"expect_status": 201})()
    built("/broken", params={"expect_status": 503})()
    assert "answered 200 OK" in refusal(built("/", params={"expect_status": 201})).message


def test_a_missing_server_is_reported_by_the_check():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        name = f"http://127.0.0.1:{free.getsockname()[1]}/"
        error = refusal(lambda: recognise(name).check(WorkloadSpec(name=name)))
        assert error.message == f"nothing answers at `{name}`: connection refused"


def test_a_server_that_goes_away_fails_requests_and_can_come_back(built, server):
    endpoint = built("/closes")
    endpoint()
    port = server.server_port
    server.shutdown()
    server.server_close()
    for _ in range(2):
        assert refusal(endpoint).kind == "connection"
    again = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    again.seen = []
    again.daemon_threads = True
    thread = threading.Thread(target=again.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        endpoint()
        assert len(again.seen) == 1
    finally:
        again.shutdown()
        again.server_close()


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("http://", {}, "`http://` is not an address"),
        ("http://host:99999/", {}, "`http://host:99999/` is not an address: port out of range"),
        ("http://ho st/", {}, "`http://ho st/` is not an address"),
        ("http://me:secret@host/", {}, "an address with a user name or password would end up in every"),
        ("http://127.0.0.1:1/", {"bdy": 1}, "`http://127.0.0.1:1/` has no param `bdy`"),
        ("http://127.0.0.1:1/", {"method": "P OST"}, "`http://127.0.0.1:1/`: param `method` is 'P OST': string should"),
        ("http://127.0.0.1:1/", {"headers": {"a": "b\r\nc: d"}}, "`http://127.0.0.1:1/`: param `headers` is"),
        ("http://127.0.0.1:1/", {"expect_status": 7}, "`http://127.0.0.1:1/`: param `expect_status` is 7: input"),
    ],
)
def test_malformed_input_is_refused_in_one_sentence(name, params, message):
    assert refusal(lambda: recognise(name).check(WorkloadSpec(name=name, params=params))).message.startswith(message)


def test_an_unchecked_request_is_refused_when_building_too():
    error = refusal(lambda: recognise("http://x/").build(WorkloadSpec(name="http://x/", train=True), Here()))
    assert error.message.startswith("`http://x/` has no train")


def test_facts_name_no_header_values(built):
    facts = built("/", params={"headers": {"Authorization": "Bearer secret"}}).built.facts
    assert "secret" not in str(facts)
    assert facts["method"] == "POST"
    assert facts["request_bytes"] > 0
