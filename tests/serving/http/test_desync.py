"""Requests that were used to smuggle others, byte by byte over a socket: desync.yaml, and random ones."""

import asyncio
import json
import re
from pathlib import Path

import pytest
import yaml

from cotenant.serving.http.messages import HttpLimits
from tests.serving.http.differential import GOOD, check_against_h11, fuzz, understood
from tests.serving.http.front import served
from tests.serving.http.wire import Echo
from tests.support import pace

CASES = yaml.safe_load(Path(__file__).with_name("desync.yaml").read_text("utf-8"))
POST = b"POST /echo HTTP/1.1\r\nHost: a\r\n"
PROBE = b"GET /probe HTTP/1.1\r\nHost: probe\r\n\r\n"


def pieces_of(case):
    texts = case.get("send", case.get("post"))
    pieces = [text.encode("latin-1") for text in (texts if isinstance(texts, list) else [texts])]
    if "post" in case:
        pieces[0] = POST + pieces[0]
    if case.get("length_of_body"):  # so that the table needn't count
        length = b"Content-Length: %d" % len(case["understood"][0])
        pieces = [re.sub(rb"Content-Length: [0-9]+", length, piece) for piece in pieces]
    return pieces


def read_by_server(pieces):
    async def main():
        app = Echo()
        async with served(app, HttpLimits()) as server:
            return await asyncio.wait_for(understood(server, app, pieces), pace.seconds(20))

    return asyncio.run(main())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_public_case_gets_its_reaction(case):
    pieces = pieces_of(case)
    requests, received, closed = read_by_server(pieces)
    assert [int(status) for status in re.findall(rb"HTTP/1\.1 ([0-9]{3}) ", received)] == case["answers"]
    assert [body.decode("latin-1") for *_, body in requests] == case["understood"]
    assert closed == (case["then"] == "closed")
    check_against_h11(b"".join(pieces), requests)
    if "host" in case:
        assert json.loads(received.partition(b"\r\n\r\n")[2])["headers"]["host"] == case["host"]
    if case["then"] == "open":
        again, _, _ = read_by_server([*pieces, PROBE])
        assert again == [*requests, ("GET", "/probe", "", b"")], "the next request is itself"


def test_the_cases_are_many_and_distinct():
    assert len({case["name"] for case in CASES}) == len(CASES) > 120


def test_random_requests_are_understood_as_h11_does_or_not_at_all():
    assert fuzz(seed=20261118, count=3000) > 2000, "many requests are good ones"


@pytest.mark.parametrize("data", GOOD, ids=range(len(GOOD)))
def test_the_requests_to_begin_with_are_good(data):
    requests, _, _ = read_by_server([data])
    assert len(requests) == 1
    check_against_h11(data, requests)
