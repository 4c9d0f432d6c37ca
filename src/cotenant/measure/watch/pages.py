"""Reads a server's `/metrics`, at most once a second, into the tracks of its tenants."""

import http.client
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from cotenant.analyse.neighbours.watched import Grant
from cotenant.clients.address import Address, read_address
from cotenant.clients.asking import ask
from cotenant.clients.exposition import exposed
from cotenant.clients.metrics import LIMIT_S, PATH
from cotenant.clients.published import KNOWN_SOFTWARE, Published, Software, read_published
from cotenant.errors import WatchError, WorkloadError
from cotenant.measure.watch.track import Track

LARGEST_PAGE = 16 << 20
OUT_OF_REACH = 3
"""Failed readings in a row after which a server is reported as gone."""


class PageReader:
    """One server's page."""

    def __init__(
        self, address: Address, alias: str | None, histograms: Sequence[Software], new_track: Callable[..., Track]
    ) -> None:
        self.address = address
        self._alias = alias
        self._known = (*histograms, *KNOWN_SOFTWARE)
        self._metrics = frozenset[str]().union(*(one.metrics for one in self._known))
        self._new_track = new_track
        self.tracks: dict[str, Track] = {}
        """By the tenant's name on the page."""
        self.notes: list[str] = []
        self._failed = 0
        self._shares: dict[str, tuple[float, float]] = {}

    def read(self) -> None:
        """One reading. A server that doesn't answer is noted, and asked again next time."""
        began = time.time()
        try:
            found = self.fetch()
        except WatchError as problem:
            self._failed += 1
            if self._failed == OUT_OF_REACH and self.tracks:
                self.notes.append(f"{problem.message} since {datetime.fromtimestamp(began, UTC):%H:%M:%S} UTC.")
            return
        if self._failed >= OUT_OF_REACH and self.tracks:
            self.notes.append(f"`{self.address.name}` answers again since "
                              f"{datetime.fromtimestamp(began, UTC):%H:%M:%S} UTC.")  # fmt: skip
        self._failed = 0
        t_s = (began + time.time()) / 2  # the server made the page somewhere in between
        for one in found:
            self._put(one, t_s, only=len(found) == 1)

    def fetch(self) -> list[Published]:
        """The tenants on the page.

        Raises:
            WatchError: Nothing answers there, or it publishes nothing that is known.
        """
        where = self.address
        try:
            status, body = ask(where, where.target, within_s=LIMIT_S, most=LARGEST_PAGE)
        except (OSError, UnicodeError) as error:
            text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
            raise WatchError(f"`{where.name}` doesn't answer ({text.lower()})") from None
        except http.client.HTTPException:
            raise WatchError(f"`{where.name}` doesn't answer in HTTP") from None
        if status != 200:
            raise WatchError(f"`{where.name}` has no metrics: GET {where.target} returns status {status}")
        found = read_published(exposed(body.decode(errors="replace"), self._metrics), self._known)
        if not found:
            raise WatchError(
                f"`{where.name}` publishes no metrics of vLLM, SGLang, Triton, TEI, llama.cpp or cotenant",
                hint="name a histogram of it: --histogram http_request_duration_seconds",
            )
        return found

    def _put(self, one: Published, t_s: float, *, only: bool) -> None:
        track = self.tracks.get(one.tenant)
        if track is None:
            where = f"{self.address.host}:{self.address.port}"
            name = (self._alias if only else None) or one.tenant or where
            track = self.tracks[one.tenant] = self._new_track(name, one.software, where)
            track.facts["url"] = self.address.name
        track.add(t_s, one.totals, f"{one.software}: {self.address.name}")
        track.add_buckets(one.buckets)
        device_s = one.totals.get("device_s")
        if one.share is not None and device_s is not None:
            since, before = self._shares.setdefault(one.tenant, (t_s, device_s))
            got = 100 * (device_s - before) / (t_s - since) if t_s > since and device_s >= before else None
            track.grant(Grant("time", "cotenant serve", 100 * one.share, got, "% of the device's time"))


def page_address(text: str) -> Address:
    """The address of a server's metrics: `http://host:8000`, `host:8000`, or with a path of its own.

    Raises:
        WatchError: It isn't an address.
    """
    try:
        address = read_address(text if "://" in text else f"http://{text}")
    except WorkloadError as error:
        raise WatchError(error.message, hint=error.hint) from None
    if address.path.strip("/"):
        return address
    with suppress(WorkloadError):
        return read_address(f"{address.scheme}://{address.authority}{PATH}")
    return address
