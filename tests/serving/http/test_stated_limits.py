"""Every limit is exactly what it says: the last value that is allowed is served, the next is refused."""

import asyncio
from dataclasses import replace

import jsonschema
import pytest

from cotenant.errors import ServingError
from cotenant.serving.http import connection, parsing
from cotenant.serving.http.listener import tls_of
from tests.serving.http.front import run
from tests.serving.http.wire import answers, bodies, on_wire, request, wired

LAST = "Connection: close"
CHUNKED = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
IDS = {"name": "input_ids", "datatype": "INT64", "shape": [1, 3], "data": [9, 10, 11]}
WORK = {
    "/v1/completions": {"model": "gpt", "prompt": "a"},
    "/v1/chat/completions": {"model": "gpt", "messages": [{"role": "user", "content": "a"}], "logprobs": True},
    "/v1/embeddings": {"model": "bert", "input": "a"},
}


def statuses(data, **limits):
    """What a server answers to some bytes."""

    async def scenario(app, server, wire):
        wire.send(data)
        return [status for status, *_ in answers(await wire.all())]

    return on_wire(scenario, **limits)


def with_headers(count):
    return request("GET", "/", b"", *(f"X-{number}: a" for number in range(count - 2)), LAST)


def with_size_line(length):
    return CHUNKED + b"1;" + b"a" * (length - 2) + b"\r\nb\r\n0\r\n\r\n"


def with_trailers(length):
    lines = [b"X: " + b"a" * 1021] * 7
    return CHUNKED + b"0\r\n" + b"\r\n".join([*lines, b"X: " + b"a" * (length - 7 * 1024 - 3)]) + b"\r\n\r\n"


@pytest.mark.parametrize(
    ("made", "most", "refused"),
    [
        (with_headers, parsing.HEADERS_MOST, 431),
        (with_size_line, parsing.LINE_MOST, 400),
        (with_trailers, parsing.TRAILERS_MOST, 400),
    ],
    ids=["headers", "line of a chunk", "trailers"],
)
def test_the_last_allowed_line_is_read_and_the_next_refused(made, most, refused):
    assert (parsing.HEADERS_MOST, parsing.LINE_MOST, parsing.TRAILERS_MOST) == (256, 1024, 8192)
    assert (statuses(made(most)), statuses(made(most + 1))) == ([200], [refused])


def test_head_path_and_body_end_where_they_say():
    plain = request("GET", "/", b"", LAST)
    assert statuses(plain, head=len(plain)) == [200]
    assert statuses(plain, head=len(plain) - 1) == [431]
    assert [statuses(request("GET", "/" + "a" * length, b"", LAST), path=10) for length in (9, 10)] == [[200], [414]]
    assert [statuses(request("POST", "/echo", b"a" * size, LAST), body=10) for size in (10, 11)] == [[200], [413]]


def test_small_bodies_are_outside_the_common_limit_and_the_next_byte_is_inside():
    small = request("POST", "/echo", b"a" * parsing.FREE, LAST)
    large = request("POST", "/echo", b"a" * (parsing.FREE + 1), LAST)
    assert parsing.FREE == 65536
    assert [statuses(data, bodies=0) for data in (small, large)] == [[200], [503]]
    assert statuses(large, bodies=parsing.FREE + 1) == [200]
    assert statuses(large, bodies=parsing.FREE) == [503]


@pytest.mark.parametrize(("given", "kept"), [("a" * 128, True), ("a" * 129, False), ("a\x7f", False), ("ä", False)])
def test_a_clients_own_name_for_its_request_is_kept_if_it_is_short_and_printable(given, kept):
    async def scenario(app, server, wire):
        wire.send(request("GET", "/", b"", f"X-Request-Id: {given}", LAST))
        return answers(await wire.all())[0][1]["x-request-id"]

    assert (on_wire(scenario) == given) is kept


def test_every_request_has_a_name_of_its_own():
    async def scenario(app, server, wire):
        wire.send(request("GET", "/") * 3 + request("GET", "/", b"", LAST))
        return [headers["x-request-id"] for _, headers, _ in answers(await wire.all())]

    assert len(set(on_wire(scenario))) == 4


def test_connections_are_counted_by_address_until_they_are_gone():
    async def scenario(app, server, wire):
        async with wired(server) as other:
            other.send(request("GET", "/"))
            await other.until(b"}")
            assert dict(server._per_address) == {"127.0.0.1": 2}
        while len(server._connections) > 1:
            await asyncio.sleep(0.01)
        assert dict(server._per_address) == {"127.0.0.1": 1}
        wire.send(request("GET", "/", b"", LAST))
        await wire.all()
        while server._connections:
            await asyncio.sleep(0.01)
        assert dict(server._per_address) == {}

    on_wire(scenario)


def test_a_refused_request_that_was_read_whole_leaves_the_connection_open():
    async def scenario(app, server, wire):
        wire.send(request("POST", "/echo", b"a", "Content-Encoding: br") + request("POST", "/echo", b"b", LAST))
        received = await wire.all()
        return [status for status, *_ in answers(received)], bodies(received)

    assert on_wire(scenario) == ([415, 200], ["b"])


def test_the_last_answer_is_followed_by_the_end_of_the_connection_at_once():
    async def scenario(app, server, wire):
        wire.send(request("GET", "/", b"", LAST))
        await wire.until(b"}")
        async with asyncio.timeout(connection.LINGER_S / 2):  # a refused client, which still sends, gets that long
            while server._connections:
                await asyncio.sleep(0.01)

    on_wire(scenario)


def test_tls_takes_a_certificate_and_its_key():
    assert tls_of(None, None) is tls_of("a.pem", None) is tls_of(None, "a.key") is None
    with pytest.raises(ServingError, match=r"The certificate a\.pem and its key a\.key can't be used"):
        tls_of("a.pem", "a.key")


def limits_in(document, path):
    """Option, the values at its limits, and those beyond them."""
    schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    for name, about in schema["properties"].items():
        step = 1 if about.get("type") == "integer" else 0.001
        at = [about[end] for end in ("minimum", "maximum") if end in about]
        beyond = [about[end] + sign * step for end, sign in (("minimum", -1), ("maximum", 1)) if end in about]
        if at:
            yield name, at, beyond


@pytest.mark.parametrize("path", WORK)
def test_the_limits_that_the_document_states_are_those_of_the_server(path):
    async def scenario(client):
        gpt = client.service.tenants["gpt"]
        gpt.signature = replace(gpt.signature, longest=None)  # so that only the stated limits count
        document = (await client.get("/openapi.json")).json()
        wrong, tried = [], 0
        for name, at, beyond in limits_in(document, path):
            for value, allowed in [*((value, True) for value in at), *((value, False) for value in beyond)]:
                answer = await client.post(path, {**WORK[path], name: value})
                error = {} if answer.status == 200 else answer.json()["error"]
                tried += 1
                if (answer.status == 200) is not allowed and name != "dimensions":  # which are those of its vectors
                    wrong.append((name, value, error))
        return wrong, tried

    wrong, tried = run(scenario)
    assert wrong == []
    assert tried >= (2 if path == "/v1/embeddings" else 40)


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("/v1/completions", {"prompt": value})
        for value in ("", "a", [], [1], [""], ["a"], ["a"] * 2, [[]], [[1]], [[1], [2]], [[-1]], [-1], 3, None, [1.5])
    ]
    + [("/v1/embeddings", {"input": value}) for value in ("", "a", [], [1], ["a", "b"], [""], [[]], [[1]], {"a": 1})]
    + [("/v1/embeddings", {"encoding_format": value}) for value in ("float", "base64", "hex", 3)]
    + [
        ("/v1/completions", change)
        for change in (
            {"ignore_eos": 1}, {"stream_options": 3}, {"logit_bias": []}, {"logit_bias": {"9": 101}}, {"echo": "yes"},
            {"stop": ""}, {"stop": "a"}, {"stop": ["a"]}, {"stop_token_ids": [0]}, {"stop_token_ids": [-1]},
        )
    ]
    + [
        ("/v1/chat/completions", {"messages": value})
        for value in (
            [], "a", [{"role": "user"}], [{"role": "user", "content": "a"}], [{"role": "evil", "content": "a"}],
            [{"role": "assistant", "content": None}, {"role": "tool", "content": "a"}],
        )
    ]
    + [("/detokenize", {"tokens": value}) for value in ([], [0], [9, 10], [-1], ["a"], 3)]
    + [("/tokenize", {"prompt": value}) for value in ("", "a", 3, ["a"])],
)  # fmt: skip
def test_a_body_is_served_exactly_if_the_document_allows_it(path, change):
    async def scenario(client):
        document = (await client.get("/openapi.json")).json()
        schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        body = {**WORK.get(path, {"model": "gpt"}), **change}
        return jsonschema.Draft202012Validator(schema).is_valid(body), await client.post(path, body)

    allowed, answer = run(scenario)
    assert answer.status == (200 if allowed else 400), answer.body


@pytest.mark.parametrize(
    ("option", "at", "beyond"),
    [
        ("stop", ["a"] * 16, ["a"] * 17),
        ("stop", "a", [""]),
        ("stop", ["a"], [5]),
        ("stop", None, {"a": 1}),
        ("stop", [], False),
        ("stop_token_ids", [], ""),
        ("stop_token_ids", None, {}),
        ("logit_bias", {}, []),
        ("stop_token_ids", [5] * 16, [5] * 17),
        ("stop_token_ids", [999], [1000]),
        ("stop_token_ids", [0], [-1]),
        ("logit_bias", {"999": 100}, {"1000": 100}),
        ("logit_bias", {"9": -100}, {"9": -100.5}),
        ("logit_bias", {"9": 0.5}, {"9": True}),
        ("seed", 2**62 - 1, 2**62),
        ("seed", -(2**62) + 1, -(2**62)),
        ("prompt", [999], [1000]),
        ("prompt", ["a"] * 64, ["a"] * 65),
    ],
)
def test_lists_of_options_end_where_they_say(option, at, beyond):
    async def scenario(client):
        path = "/v1/completions"
        return [await client.post(path, {**WORK[path], "max_tokens": 1, option: value}) for value in (at, beyond)]

    allowed, refused = run(scenario)
    assert (allowed.status, refused.status) == (200, 400)
    assert refused.json()["error"]["message"]


@pytest.mark.parametrize(
    "entry", [{**IDS, "extra": 1}, {**IDS, "parameters": {"binary": 3}}, {**IDS, "shape": [1] * 8 + [3]}, {"name": 3}]
)
def test_an_input_with_a_field_that_would_be_ignored_is_refused(entry):
    async def scenario(client):
        return await client.post("/v2/models/bert/infer", {"inputs": [entry]})

    assert run(scenario).status == 400


@pytest.mark.parametrize(("options", "tokens"), [({}, 8), ({"ignore_eos": True}, 8), ({"ignore_eos": False}, 1)])
def test_tensors_go_past_the_models_own_end_unless_told_otherwise(options, tokens):
    async def scenario(client):
        client.service.tenants["gpt"].codec.stops = (72,)  # the token that the simulated worker writes
        answer = await client.post("/v2/models/gpt/infer", {"inputs": [IDS], "parameters": options})
        return answer.json()["outputs"][0]["shape"]

    assert run(scenario) == [1, tokens]
