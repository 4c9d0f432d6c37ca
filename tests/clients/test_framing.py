"""HTTP/1.1 answers are parsed, whatever pieces they arrive in."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.clients.framing import Framing, NotHttp

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=1\r\n world\r\n0\r\nA: b\r\n\r\n"
BY_LENGTH = b"HTTP/1.1 404 Not Found\r\ncontent-length: 11\r\nConnection: close\r\n\r\nhello world"
PROMISED = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + CHUNKED


def taken_apart(pieces, *, to_head=False):
    heads, body = [], []
    framing = Framing(heads.append, body.append)
    framing.begin(to_head=to_head)
    for piece in pieces:
        framing.feed(piece)
    return framing, heads, b"".join(body)


@given(st.sampled_from([CHUNKED, BY_LENGTH, PROMISED]), st.lists(st.integers(0, 120), max_size=12))
def test_pieces_make_no_difference(answer, cuts):
    ends = [0, *sorted(min(cut, len(answer)) for cut in cuts), len(answer)]
    framing, [head], body = taken_apart([answer[a:b] for a, b in pairwise(ends) if b > a])
    assert (framing.done, body) == (True, b"hello world")
    assert (head.status, framing.keep) == ((404, False) if answer is BY_LENGTH else (200, True))


def test_chunks_that_arrive_together_are_passed_on_together():
    body = []
    framing = Framing(lambda _: None, body.append)
    framing.feed(CHUNKED[:47])
    framing.feed(CHUNKED[47:])
    assert body == [b"hello world"]


def test_a_body_without_a_length_ends_with_the_connection():
    framing, _, body = taken_apart([b"HTTP/1.0 200 OK\r\n\r\nabc", b"def"])
    assert not framing.done
    assert framing.end()
    assert (body, framing.keep) == (b"abcdef", False)


def test_a_truncated_answer_is_not_complete():
    framing, _, _ = taken_apart([CHUNKED[:60]])
    assert not framing.end()


@pytest.mark.parametrize("head", [b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 304 \r\nContent-Length: 5\r\n\r\n"])
def test_some_answers_have_no_body(head):
    assert taken_apart([head])[0].done
    assert taken_apart([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"], to_head=True)[0].done


@pytest.mark.parametrize(
    "rubbish",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 okay\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"1" * 5000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\nContent-Length: 3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 \xb2\xb2\xb2 OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/1.1 600 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nRetry-After: 1\rSet-Cookie: a=b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA b: c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
        CHUNKED.replace(b"\r\n5\r\n", b"\r\n0x5\r\n"),
        CHUNKED.replace(b"\r\n5\r\n", b"\r\n+5\r\n"),
        CHUNKED.replace(b"\r\n5\r\n", b"\r\n0_5\r\n"),
        CHUNKED.replace(b"\r\n5\r\n", b"\r\n-5\r\n"),
        CHUNKED[:45] + b"\r\n\r\nxyz\r\n",
        CHUNKED.replace(b"hello\r\n", b"helloXX"),
        b"HTTP/1.1 200 OK\r\n" + b"a" * 70_000,
    ],
)
def test_anything_but_http_is_refused(rubbish):
    with pytest.raises(NotHttp):
        taken_apart([rubbish])


def test_one_length_said_twice_is_one_length():
    framing, _, body = taken_apart([BY_LENGTH.replace(b"\r\nConn", b"\r\nContent-Length: 11\r\nConn")])
    assert (framing.done, body) == (True, b"hello world")


def test_chunks_take_precedence_over_a_length_but_end_the_connection():
    framing, _, body = taken_apart([CHUNKED.replace(b"OK\r\n", b"OK\r\nContent-Length: 3\r\n")])
    assert (framing.done, framing.keep, body) == (True, False, b"hello world")


def test_what_is_announced_and_has_not_arrived_is_known():
    head, body = BY_LENGTH[:-11], BY_LENGTH[-11:]
    assert taken_apart([head, body[:4]])[0].left == 7
    assert taken_apart([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nab"])[0].left == 255
    assert taken_apart([CHUNKED[:50], CHUNKED[50:]])[0].left == 0
