"""Heads of answers, errors as answers, names of hosts, keys and metrics: each rule by itself."""

import json
from types import SimpleNamespace as Facts

import pytest

from cotenant.errors import BackendTimeout, BadInput, CotenantError, Refused, RequestFailed
from cotenant.scheduling import Why
from cotenant.serving.http import access, metrics
from cotenant.serving.http.messages import (
    HttpRequest,
    Reply,
    Status,
    in_json,
    read_json,
    reply_to,
    request_id,
    status_of,
    to_json,
    write_head,
)
from cotenant.serving.measures import Histogram


def head(reply=None, own=None, *, old=False, keep=True):
    first, *lines = write_head(reply or Reply(200, b"abc"), own or {}, old=old, keep=keep).decode().split("\r\n")
    assert lines[-2:] == ["", ""]
    return first, dict(line.split(": ", 1) for line in lines[:-2])


async def nothing():
    yield b""


def test_a_whole_answer_states_its_length_and_a_stream_comes_in_chunks():
    assert head() == ("HTTP/1.1 200 OK", {"content-type": "application/json", "content-length": "3"})
    for status in (204, 304):
        assert "content-length" not in head(Reply(status))[1]
    stream = Reply(200, kind="text/event-stream", pieces=nothing())
    assert head(stream)[1] == {
        "content-type": "text/event-stream", "cache-control": "no-store", "transfer-encoding": "chunked",
    }  # fmt: skip
    old = head(stream, old=True, keep=False)[1]
    assert (old["connection"], "transfer-encoding" in old) == ("close", False)


@pytest.mark.parametrize(
    ("old", "keep", "said"),
    [(False, True, None), (False, False, "close"), (True, True, "keep-alive"), (True, False, "close")],
)
def test_what_becomes_of_the_connection_is_said_where_it_is_not_usual(old, keep, said):
    assert head(old=old, keep=keep)[1].get("connection") == said


def test_an_answer_s_headers_come_before_the_server_s_and_503_says_when_to_retry():
    reply = Reply(503, headers={"x": "own", "retry-after": "7"})
    assert (
        head(reply, {"x": "server", "y": "z"})[1] | {"x": "own", "y": "z", "retry-after": "7"}
        == head(reply, {"x": "server", "y": "z"})[1]
    )
    assert head(Reply(503))[1]["retry-after"] == "1"
    assert "retry-after" not in head(Reply(500))[1]
    assert head(Reply(299))[0] == "HTTP/1.1 299 "


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\rb"])
def test_no_header_breaks_a_line(value):
    with pytest.raises(ValueError, match="line break"):
        head(Reply(200, headers={"x": value}))


@pytest.mark.parametrize(
    ("given", "kept"),
    [("a" * 128, True), ("a" * 129, False), ("", False), ("a\x7f", False), ("ä", False), ("a b", True)],
)
def test_a_client_s_name_for_its_request_is_kept_if_it_is_harmless(given, kept):
    assert request_id(HttpRequest("GET", "/", {"x-request-id": given})) == (given if kept else None)
    assert request_id(None) is None
    assert request_id(HttpRequest("GET", "/", {})) is None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"[1]", "must be a JSON object"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": Infinity}', "Infinity is not JSON"),
        (b"\xff", "it isn't UTF-8"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too many digits"),
        (b'{"a":' + b"[" * 10_000, "valid JSON"),
        (b'{"a" 1}', "Expecting ':' delimiter"),
        (b"", "valid JSON"),
    ],
)
def test_a_body_that_is_no_object_is_named(body, why):
    with pytest.raises(BadInput, match=why):
        read_json(body)


def test_json_in_and_out():
    assert read_json(memoryview(b'{"a": [1, 2.5, null, true, "x"]}')) == {"a": [1, 2.5, None, True, "x"]}
    assert to_json({"a": [1, None]}) == b'{"a":[1,null]}'
    reply = in_json({"a": 1}, 201, {"x": "y"})
    assert (reply.status, reply.body, reply.kind, reply.headers) == (201, b'{"a":1}', "application/json", {"x": "y"})
    assert HttpRequest("POST", "/", {}, b'{"a": 1}').json() == {"a": 1}


# --- errors


def refused(why, retry_after_s=0.0104, wait_s=0.25):
    return Refused("a", why, retry_after_s=retry_after_s, predicted_wait_s=wait_s)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Status(418, "x"), 418), (BadInput("x"), 400), (RequestFailed("k", "x"), 502), (ValueError("x"), 500),
        (CotenantError("x"), 500), (refused(Why.PAUSED), 503), (refused(Why.WORKER_LOST), 503),
        (refused("draining"), 503), (refused(Why.TOO_LARGE), 413), (refused(Why.UNKNOWN_TENANT), 404),
        (refused(Why.REMOVED), 404), (refused(Why.OVER_SHARE), 429), (refused(Why.DEVICE_FULL), 429),
    ],
)  # fmt: skip
def test_each_error_has_a_status(error, status):
    assert status_of(error) == reply_to(error, openai=False).status == status


def test_a_refusal_says_why_and_when_to_come_back_rounded_up():
    found = reply_to(refused(Why.OVER_SHARE), openai=False)
    assert found.headers == {
        "retry-after": "1", "retry-after-ms": "11", "x-cotenant-why": "over-share",
        "x-cotenant-predicted-wait-ms": "250.0",
    }  # fmt: skip
    assert reply_to(refused(Why.OVER_SHARE, 1.0001), openai=False).headers["retry-after"] == "2"
    assert reply_to(refused(Why.OVER_SHARE, 0.0), openai=False).headers["retry-after-ms"] == "1"
    assert "retry-after" not in reply_to(refused(Why.REMOVED, None), openai=False).headers


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"), (401, "authentication_error"), (403, "permission_error"),
        (404, "not_found_error"), (413, "invalid_request_error"), (429, "rate_limit_error"),
        (499, "invalid_request_error"), (500, "server_error"), (503, "server_error"),
    ],
)  # fmt: skip
def test_openais_form_of_an_error(status, kind):
    error = Status(status, "No.", hint="Ask again.", param="p", code="c", headers={"x": "y"})
    found = reply_to(error, openai=True)
    assert json.loads(found.body) == {"error": {"message": "No. Ask again.", "type": kind, "param": "p", "code": "c"}}
    assert found.headers == {"x": "y"}
    assert json.loads(reply_to(error, openai=False).body) == {"error": "No. Ask again."}


def test_mistakes_of_ours_are_not_told():
    assert json.loads(reply_to(KeyError("secret"), openai=False).body) == {
        "error": "Internal server error; see the server's log."
    }
    told = json.loads(reply_to(refused(Why.DEVICE_FULL), openai=True).body)["error"]
    assert (told["code"], told["type"]) == ("device_full", "rate_limit_error")
    slow = BackendTimeout("Too slow.", retry_after_s=2.5)
    assert (status_of(slow), reply_to(slow, openai=False).headers["retry-after"]) == (504, "3")


# --- keys and pages


def test_keys_are_long_and_only_their_hashes_are_kept():
    key, known = access.new_key()
    assert key.startswith("ct-")
    assert len(key) > 40
    assert known == access.hash_of(key)
    assert known.startswith("sha256:")
    assert access.opens(key, None, access.hash_of("x"), known)
    assert not access.opens(key, access.hash_of("x"))
    assert not access.opens(None, access.hash_of(""))
    assert not access.opens(key)
    assert access.new_key()[0] != key


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({"authorization": "Bearer k"}, "k"), ({"authorization": "bearer  k "}, "k"), ({"x-api-key": "k"}, "k"),
        ({"authorization": "Basic k", "x-api-key": "x"}, "x"), ({"authorization": "Bearer", "x-api-key": "x"}, "x"),
        ({"authorization": "Bearer k", "x-api-key": "x"}, "k"), ({}, None),
    ],
)  # fmt: skip
def test_a_key_in_a_header(headers, key):
    assert access.presented(headers) == key


def service(admin=None, **keys):
    tenants = {name: Facts(name=name, key=key and access.hash_of(key)) for name, key in keys.items()}
    return Facts(tenants=tenants, admin_key=admin and access.hash_of(admin))


def status(check, *given):
    try:
        check(*given)
    except Status as error:
        return error.status
    return None


@pytest.mark.parametrize(
    ("made", "key", "found"),
    [
        # stranger, admin, tenant a, tenant b, no such tenant
        (service(a=None, b=None), None, (None, None, None, None, None)),
        (service(a="ka", b=None), None, (401, 403, 403, None, None)),
        (service(a="ka", b="kb"), "ka", (None, 403, None, 403, None)),
        (service("root", a="ka", b=None), "root", (None, None, None, None, None)),
        (service("root", a="ka", b=None), "x", (401, 403, 403, None, None)),
        (service("root", a=None, b=None), None, (None, 403, None, None, None)),
    ],
)
def test_what_a_key_opens(made, key, found):
    checks = [(access.check_stranger, made, key), (access.check_admin, made, key)]
    checks += [(access.check_tenant, made, key, name) for name in ("a", "b", "nobody")]
    assert tuple(status(*check) for check in checks) == found
    assert access.locked(made) is any(tenant.key for tenant in made.tenants.values())
    assert status(access.check_tenant, made, key, None) is None


@pytest.mark.parametrize(
    ("host", "name"),
    [("LocalHost:80", "localhost"), ("localhost", "localhost"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"),
     ("a:", "a"), ("a:b", "a:b")],
)  # fmt: skip
def test_the_name_in_a_host(host, name):
    assert access.name_of(host) == name


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({"host": "localhost:8000"}, None), ({"host": "127.0.0.1"}, None), ({}, None), ({"host": "mine:1"}, None),
        ({"host": "evil"}, 421), ({"host": "localhost", "sec-fetch-site": "cross-site"}, 403),
        ({"host": "localhost", "sec-fetch-site": "same-site"}, 403), ({"sec-fetch-site": "Same-Origin"}, None),
        ({"sec-fetch-site": "none"}, None), ({"host": "localhost:1", "origin": "http://localhost:1"}, None),
        ({"host": "localhost:1", "origin": "http://localhost:2"}, 403), ({"host": "localhost", "origin": "null"}, 403),
    ],
)  # fmt: skip
def test_pages_of_other_sites_are_refused(headers, found):
    assert status(access.refuse_foreign_pages, headers, "mine") == found


# --- the text of metrics


def test_metrics_in_prometheus_own_form():
    page = metrics.MetricsPage()
    page.put("a_total", "counter", "About a.", [({}, 1.5), ({"x": 'q"\\\n', "y": "z"}, 2)])
    assert page.text() == (
        '# HELP a_total About a.\n# TYPE a_total counter\na_total 1.5\na_total{x="q\\"\\\\\\n",y="z"} 2\n'
    )


def test_histograms_are_cumulative_and_end_at_infinity():
    histogram = Histogram((0.5, 1.0, 2.0))
    for value in (0.5, 0.6, 1.5, 99.0):
        histogram.add(value)
    page = metrics.MetricsPage()
    page.histogram("h", "H.", [({"t": "a"}, histogram)])
    assert page.text().splitlines()[2:] == [
        'h_bucket{t="a",le="0.5"} 1', 'h_bucket{t="a",le="1.0"} 2', 'h_bucket{t="a",le="2.0"} 3',
        'h_bucket{t="a",le="+Inf"} 4', f'h_sum{{t="a"}} {histogram.total:.17g}', 'h_count{t="a"} 4',
    ]  # fmt: skip
    short = metrics.MetricsPage()
    short.histogram("h", "H.", [({}, histogram)], most=1.0)
    assert [line for line in short.text().splitlines() if "bucket" in line] == [
        'h_bucket{le="0.5"} 1', 'h_bucket{le="1.0"} 2', 'h_bucket{le="+Inf"} 4',
    ]  # fmt: skip


def test_failures_by_triton_s_and_ends_by_vllm_s_names():
    why = {"cancelled": 2, metrics.FAILED: 3, metrics.BAD_INPUT: 4, Why.OVER_SHARE: 5, Why.PAUSED: 6}
    assert metrics._failures(Facts(why=why)) == {"OTHER": 4, "BACKEND": 3, "CANCELED": 2, "REJECTED": 11}
    generation = Facts(reasons={"stop": 7, "length": 8})
    assert metrics._ends(Facts(why=why, generation=generation)) == {"stop": 7, "length": 8, "abort": 2, "error": 3}
