"""Compressed bodies: what each coding takes, and where the limit is."""

import gzip
import zlib

import pytest

from cotenant.serving.http.messages import Status
from cotenant.serving.http.parsing import decompressed

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
