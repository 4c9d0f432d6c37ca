"""A Prometheus server's HTTP API: what it has recorded, as it was scraped.

Samples are asked for with their own times (a range selector), not evaluated at steps: a step repeats the last value
over a gap for up to five minutes, which would read as a server without traffic.
"""

import http.client
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from cotenant.clients.address import Address, ask
from cotenant.errors import WatchError

LIMIT_S = 30.0
LARGEST_ANSWER = 64 << 20
CHUNK_S = 1800.0
"""Of one query. Halved where an answer is too large."""
SHORTEST_CHUNK_S = 15.0


@dataclass(frozen=True, slots=True)
class Recorded:
    """Samples of one series, as scraped."""

    metric: str
    labels: Mapping[str, str]
    t_s: tuple[float, ...]
    """Of the scrapes, by the clock of the Prometheus server."""
    value: tuple[float, ...]


class PrometheusServer:
    """A server's recordings."""

    def __init__(self, address: Address, headers: Mapping[str, str] | None = None) -> None:
        self._address = replace(address, path=address.path.rstrip("/"))
        self._headers = dict(headers or {})

    @property
    def name(self) -> str:
        """Its address, as written by the user."""
        return self._address.name

    def now_s(self) -> float:
        """The server's clock.

        Raises:
            WatchError: It doesn't answer, or isn't a Prometheus server.
        """
        answer = self._query("time()", None)
        if not isinstance(answer, list) or len(answer) != 2:
            raise self._foreign()
        return float(answer[1])

    def recorded(self, metrics: Iterable[str], since_s: float, until_s: float, where: str = "") -> list[Recorded]:
        """Every sample of these metrics in a period.

        Args:
            metrics: Their names.
            since_s: Start of the period, in seconds since 1970 by the server's clock.
            until_s: Its end.
            where: Further matchers, as in a query: `namespace="prod"`.

        Raises:
            WatchError: The server doesn't answer, refuses the query, or isn't a Prometheus server.
        """
        names = "|".join(_literal(metric) for metric in sorted(set(metrics)))
        matchers = f'__name__=~"{names}"' + (f",{where}" if where else "")
        series: dict[tuple[tuple[str, str], ...], tuple[list[float], list[float]]] = {}
        for since, until in _chunks(since_s, until_s):
            for labels, samples in self._chunk(matchers, since, until):
                times, values = series.setdefault(tuple(sorted(labels.items())), ([], []))
                for t_s, value in samples:
                    if not times or t_s > times[-1]:  # both ends of a chunk belong to it
                        times.append(float(t_s))
                        values.append(float(value))
        return [
            Recorded(dict(key).get("__name__", ""), {name: value for name, value in key if name != "__name__"},
                     tuple(times), tuple(values))
            for key, (times, values) in series.items()
        ]  # fmt: skip

    def _chunk(
        self, matchers: str, since_s: float, until_s: float
    ) -> Iterator[tuple[dict[str, str], list[tuple[float, str]]]]:
        """One query; two of half the length if the answer is too large."""
        seconds = max(1, round(until_s - since_s))
        try:
            series = self._query(f"{{{matchers}}}[{seconds}s]", until_s)
        except _TooLarge:
            if seconds <= SHORTEST_CHUNK_S:
                raise WatchError(
                    f"`{self.name}` has more series of these metrics than can be read",
                    hint="name the servers: --where 'namespace=\"prod\"'",
                ) from None
            middle = (since_s + until_s) / 2
            yield from self._chunk(matchers, since_s, middle)
            yield from self._chunk(matchers, middle, until_s)
            return
        for samples in series:
            yield samples["metric"], samples["values"]

    def _query(self, query: str, at_s: float | None) -> Any:
        form = {"query": query} | ({} if at_s is None else {"time": f"{at_s:.3f}"})
        headers = {**self._headers, "Content-Type": "application/x-www-form-urlencoded"}
        try:
            status, body = ask(
                self._address, f"{self._address.path}/api/v1/query", headers,
                within_s=LIMIT_S, post=urlencode(form).encode(), most=LARGEST_ANSWER,
            )  # fmt: skip
        except (OSError, UnicodeError) as error:
            text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
            raise WatchError(
                f"Prometheus doesn't answer at `{self.name}`: {text.lower().rstrip('.')}",
                hint="check the address, or watch the servers themselves: cotenant watch URL URL",
            ) from None
        except http.client.HTTPException:
            raise self._foreign() from None
        if len(body) >= LARGEST_ANSWER:
            raise _TooLarge
        try:
            answer = json.loads(body)
        except ValueError:
            raise self._foreign(status) from None
        if not isinstance(answer, dict) or answer.get("status") != "success":
            reason = str(answer.get("error", ""))[:200] if isinstance(answer, dict) else ""
            if "too many samples" in reason:
                raise _TooLarge
            raise WatchError(
                f"Prometheus at `{self.name}` refuses the query with status {status}"
                + (f": {reason}" if reason else "")
            )
        return answer["data"]["result"]

    def _foreign(self, status: int | None = None) -> WatchError:
        answered = f" (status {status})" if status and status != 200 else ""
        return WatchError(
            f"`{self.name}` isn't a Prometheus server{answered}",
            hint="name the address of its web page, as in --prometheus http://localhost:9090",
        )


class _TooLarge(Exception):
    """The answer has more samples than are read at once."""


def _literal(metric: str) -> str:
    """A name within a regular expression within quotes: only letters, digits, `_` and `:` are left."""
    return "".join(letter for letter in metric if letter.isalnum() or letter in "_:")


def _chunks(since_s: float, until_s: float) -> Iterator[tuple[float, float]]:
    at = since_s
    while at < until_s:
        yield at, min(until_s, at + CHUNK_S)
        at += CHUNK_S
