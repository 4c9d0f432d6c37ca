"""Bodies: what each coding takes, where the limits are, and what counts against the limit of all."""

import gzip
import zlib
from types import SimpleNamespace as Facts

import pytest

from cotenant.serving.http.messages import HttpLimits, Status
from cotenant.serving.http.parsing import FREE, BodyShare, decompressed

TEXT = b"x" * 100


def refused(body, coding, most=100):
    with pytest.raises(Status) as status:
        decompressed(body, coding, most)
    return status.value.status


@pytest.mark.parametrize(
    ("coding", "body"),
    # Without a time stamp: processes that collect these tests in different seconds must name them alike.
    [
        ("gzip", gzip.compress(TEXT, mtime=0)),
        (" X-GZIP ", gzip.compress(TEXT, mtime=0)),
        ("deflate", zlib.compress(TEXT)),
    ],
)
def test_a_body_may_be_as_large_decompressed_as_the_limit(coding, body):
    assert decompressed(body, coding, 100) == TEXT
    assert refused(body, coding, 99) == 413


def test_a_coding_is_not_taken_for_another():
    assert refused(zlib.compress(TEXT), "gzip") == 400
    assert refused(gzip.compress(TEXT), "deflate") == 400
    assert refused(TEXT, "br") == 415


def test_a_compressed_body_ends_where_it_says():
    body = gzip.compress(TEXT)
    assert refused(body[:-1], "gzip") == 400
    assert refused(body + b"x", "gzip") == 400


def share(held=0, **limits):
    """The share of one request beside others that hold so many bytes."""
    server = Facts(body_bytes=held)
    return server, BodyShare(server, HttpLimits(**limits))


def status_of_charge(size, held, **limits):
    with pytest.raises(Status) as status:
        share(held, **limits)[1].charge(size)
    return status.value.status


def test_a_body_that_grows_counts_once_and_not_at_all_when_it_is_gone():
    server, own = share(1000, bodies=1000 + FREE + 30)
    own.charge(FREE)
    assert server.body_bytes == 1000, "a small body counts nothing"
    for size in (FREE + 10, FREE + 20, FREE + 30):
        own.charge(size)
        assert server.body_bytes == 1000 + size
    own.release()
    assert server.body_bytes == 1000


def test_a_body_too_large_by_itself_is_told_from_too_many():
    assert status_of_charge(101, 0, body=100) == 413
    assert status_of_charge(FREE + 1, 10, bodies=FREE + 10) == 503
    share(10, bodies=FREE + 11)[1].charge(FREE + 1)
    share(10**9, bodies=0)[1].charge(FREE)


@pytest.mark.parametrize(("size", "counted"), [(FREE, 0), (FREE + 1, FREE + 1)])
def test_a_decompressed_body_counts_by_its_own_size(size, counted):
    server, own = share(7, bodies=10 * FREE)
    body = gzip.compress(bytes(size))
    assert len(own.decompressed(body, "gzip")) == size
    assert server.body_bytes == 7 + counted
    assert own.decompressed(body, "Identity") == body
    assert server.body_bytes == 7 + counted


@pytest.mark.parametrize(
    ("limits", "status"),
    [({"body": 2 * FREE, "bodies": 9 * FREE}, 413), ({"body": 9 * FREE, "bodies": 3 * FREE}, 503)],
    ids=["its own limit", "the limit of all"],
)
def test_a_body_that_decompresses_beyond_a_limit_is_refused_by_that_limit(limits, status):
    _, own = share(FREE, **limits)
    assert len(own.decompressed(gzip.compress(bytes(2 * FREE)), "gzip")) == 2 * FREE
    with pytest.raises(Status) as refused:
        share(FREE, **limits)[1].decompressed(gzip.compress(bytes(2 * FREE + 1)), "gzip")
    assert refused.value.status == status
