"""Only this machine, read-only, only the folder's contents."""

import contextlib
import socket
import time

import pytest

from tests.reporting.browser.view_runs import write_run
from tests.support import pace

REFUSED = ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "X"]


@pytest.mark.parametrize("method", REFUSED)
def test_only_reading_is_allowed(site, method):
    answer = site.ask("/", method=method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"


def test_a_body_is_never_taken_for_the_next_request(site):
    with socket.create_connection(("127.0.0.1", site.server.port), timeout=pace.seconds(5)) as connection:
        inner = b"GET /runs.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        connection.sendall(
            b"GET /style.css HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
            % (len(inner), inner)
        )
        received = b""
        while part := connection.recv(65536):
            received += part
    assert received.count(b"HTTP/1.1 ") == 1
    assert b"application/json" not in received


@pytest.mark.parametrize("path", ["/?q=broken", "/runs.json?q=broken", "/style.css", "/nothing"])
def test_head_gives_what_get_gives_without_the_body(site, path):
    got, head = site.ask(path), site.ask(path, method="HEAD")
    assert head.status == got.status
    assert head.text == ""
    own = {"date", "x-request-id"}
    kept = {name: value for name, value in got.headers.items() if name not in own}
    assert {name: value for name, value in head.headers.items() if name not in own} == kept


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "127.0.0.1", "127.0.0.1:1", "LOCALHOST:80"])
def test_loopback_names_are_answered_on_any_port_since_it_may_be_forwarded(site, host):
    assert site.ask("/", host=host).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8765", "", "localhost.evil.example", "127.0.0.1.evil.example:80", "0.0.0.0", "[::1]",
     "127.0.0.1@evil.example", "evil.example:127.0.0.1"],
)  # fmt: skip
def test_other_host_names_are_refused_against_dns_rebinding(site, host):
    answer = site.ask("/runs.json", host=host)
    assert answer.status in {400, 421}
    assert "pairs" not in answer.text


def test_two_host_headers_are_refused(site):
    with socket.create_connection(("127.0.0.1", site.server.port), timeout=pace.seconds(5)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        assert connection.recv(64).startswith(b"HTTP/1.1 400")


def test_pages_of_other_sites_may_link_here_but_not_fetch(site):
    assert site.ask("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 200
    assert site.ask("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors").status == 403
    assert site.ask("/", Sec_Fetch_Site="same-site", Sec_Fetch_Mode="cors").status == 403
    assert site.ask("/", Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd", "/run/../../../../etc/passwd", "/run/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/%2e%2e/secret",
        "/run/pairs/monday", "/run/pairs%2Fmonday", "/run/..%2fsecret/progress", "/run//etc/passwd", "//etc/passwd",
        "/run/%00", "/run/\\..\\secret", "/run/", "/run", "/style.css/../../secret", "/templates/base.html.j2",
        "/run/" + "a" * 5000, "http://evil.example/run/x", "/static/../manifest.json",
    ],
)  # fmt: skip
def test_no_address_leads_out_of_the_folder(serve, tmp_path, path):
    (tmp_path / "secret").write_text("SECRET")
    write_run(tmp_path / "secret-run", study="SECRET", blocks=0)
    inside = tmp_path / "inside"
    write_run(inside / "pairs" / "monday", blocks=0)
    answer = serve(inside).ask(path)
    assert answer.status in {400, 404}
    assert "SECRET" not in answer.text
    assert "root:" not in answer.text


def test_links_are_not_followed(serve, tmp_path):
    write_run(tmp_path / "outside", study="SECRET", blocks=0)
    inside = tmp_path / "inside"
    (inside / "fake").mkdir(parents=True)
    (inside / "link").symlink_to(tmp_path / "outside")
    (inside / "fake" / "manifest.json").symlink_to(tmp_path / "outside" / "manifest.json")
    site = serve(inside)
    assert '"total": 0' in site.ask("/runs.json").text


def test_every_answer_has_the_same_security_headers(site):
    for path in ("/", "/nothing", "/runs.json", "/script.js", f"/run/{site.key('pairs/monday')}"):
        headers = site.ask(path).headers
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src ")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy.partition("script-src")[2].partition(";")[0]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "Set-Cookie" not in headers


@pytest.mark.parametrize("line", [b"nonsense", b"GET", b"GET / HTTP/9.9", b"GET / HTTP/1.1 x", b"GET " + b"/" * 70000])
def test_a_malformed_request_gets_a_sentence_or_nothing_and_the_server_continues(site, line):
    with socket.create_connection(("127.0.0.1", site.server.port), timeout=pace.seconds(5)) as connection:
        connection.sendall(line + b"\r\nHost: localhost\r\n\r\n")
        first = connection.recv(64)
    assert first == b"" or b" 4" in first or b" 5" in first
    assert site.ask("/").status == 200


def test_an_internal_error_is_a_sentence_and_the_server_continues(site, monkeypatch):
    monkeypatch.delenv("COTENANT_DEBUG", raising=False)
    monkeypatch.setattr("cotenant.reporting.browser.pages.choose", None)
    monkeypatch.setattr("cotenant.reporting.browser.site.choose", lambda *_: 1 / 0)
    answer = site.ask("/")
    assert answer.status == 500
    assert "Internal error" in answer.text
    assert "ZeroDivision" not in answer.text
    monkeypatch.undo()
    assert site.ask("/").status == 200


def test_a_slow_client_is_closed_at_its_deadline(serve, runs):
    site = serve(runs, head_s=1.0)
    with socket.create_connection(("127.0.0.1", site.server.port), timeout=pace.seconds(10)) as connection:
        begin = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - begin < 25:
                connection.sendall(b"G")
                time.sleep(0.2)
                connection.setblocking(False)
                try:
                    if connection.recv(1000):
                        break
                except BlockingIOError:
                    pass
                connection.settimeout(pace.seconds(10))
        assert time.monotonic() - begin < 20, "by default it would be 15 s and more"
    assert site.ask("/").status == 200


def test_idle_connections_beyond_the_limit_are_closed_and_the_last_one_is_served(site):
    held = [socket.create_connection(("127.0.0.1", site.server.port), timeout=pace.seconds(5)) for _ in range(70)]
    try:
        closed = 0
        assert site.ask("/style.css").status == 200
        for connection in held[:6]:  # the longest idle ones
            closed += connection.recv(1) == b""
        assert closed == 6
    finally:
        for connection in held:
            connection.close()


def test_it_listens_on_loopback_only(site):
    assert site.server._listener.getsockname()[0] == "127.0.0.1"


def test_viewing_writes_nothing(serve, tmp_path):
    write_run(tmp_path / "one", blocks=2)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    site = serve(tmp_path)
    for path in ("/", f"/run/{site.key('one')}", f"/run/{site.key('one')}/progress"):
        assert site.ask(path).status == 200
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == files
