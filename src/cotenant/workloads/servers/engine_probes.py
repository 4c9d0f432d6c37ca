"""Probe a running engine with the OpenAI API: requests of several lengths, several in flight, timed by the client."""

import asyncio
import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean, median, stdev
from typing import Any

from cotenant.clients.address import Address, ask, read_address
from cotenant.clients.exposition import PATH, answered, page_of, read_metrics, read_sizes
from cotenant.errors import RequestFailed, WorkloadError
from cotenant.workloads.protocol import SENT, WorkloadSpec
from cotenant.workloads.servers.client import ServerPlace
from cotenant.workloads.servers.openai import OpenAIClient, OpenAIOptions, choose_model, longest_context
from cotenant.workloads.servers.spec import OPENAI
from cotenant.workloads.spec_options import read_options

SPREAD = 0.5
"""Answers are shorter and longer by up to this share, so that requests in flight don't end together."""
PASSES = 3
"""Passes over all loads: what slows a machine down for a while affects a single pass."""
_FEWEST, _ROUNDS = 12, 5
"""Requests of a probe: at least so many, and so many for each in flight."""
_NOISY, _BUSY = 0.1, 0.35
"""Spread of a load's times over the passes that is mentioned, and that is too much to learn anything."""
_STRANGERS = 1.05
"""Requests that the server answered over those that were sent: more, and others use it."""
_GROUPED = 0.8
"""Fewer chunks per token than this: several tokens come at once."""
_READ_APART = 0.5
"""Share of the tokens after the first that must be read after it to tell the time per token."""
_LEAST_MS = 1e-3
REPEATED = 3
"""Prompts that are sent twice."""
_CACHED = 0.6
"""A prompt sent again that takes less than this share of its time was found in a cache."""


@dataclass(frozen=True, slots=True)
class ProbeLoad:
    """One load: its prompts, answers and requests in flight."""

    prompt: int
    tokens: int
    in_flight: int

    @property
    def requests(self) -> int:
        """Most requests that it sends."""
        return max(_FEWEST, _ROUNDS * self.in_flight)


@dataclass(frozen=True, slots=True)
class ProbedTime:
    """A time that clients saw at a load, in ms."""

    middle: float
    """Mean of the middle half; of several passes the median."""
    p95: float
    """Of all passes' requests."""
    passes: tuple[float, ...]
    """The middle in each pass."""

    @property
    def spread(self) -> float:
        """Standard deviation of the middle over the passes, relative."""
        return stdev(self.passes) / fmean(self.passes) if len(self.passes) > 1 else 0.0


@dataclass(frozen=True, slots=True)
class ProbedLoad:
    """What clients saw at a load."""

    load: ProbeLoad
    prompt: int
    """Tokens as the server counts them."""
    requests: int
    ttft: ProbedTime | None
    """None with `tpot`: in most requests most tokens came together, and only whole requests have a time."""
    tpot: ProbedTime | None
    ms: ProbedTime

    @property
    def steadiest(self) -> tuple[str, ProbedTime]:
        """What tells best whether the server did other work: its unit, and the time."""
        return ("ms per request", self.ms) if self.tpot is None else ("ms per token", self.tpot)


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What a server says of its limits; None where it doesn't."""

    sequences: int | None = None
    cache_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class TimedRequest:
    """What a client saw of a request."""

    number: int
    tokens_in: int | None
    chunks: int
    tokens_out: int
    ms: float
    ttft_ms: float | None
    """None with `tpot_ms`: most tokens were read together, and only the whole time is known."""
    tpot_ms: float | None


def loads_around(prompt: int, tokens: int, in_flight: int) -> tuple[ProbeLoad, ...]:
    """Probes that include the intended load: short and long prompts alone, then more and more in flight."""
    short = max(8, prompt // 8)
    wanted = [(short, 1), (prompt, 1), (short, max(2, in_flight // 4)), (prompt, max(2, in_flight // 2)),
              (short, in_flight), (prompt, in_flight)]  # fmt: skip
    return tuple(ProbeLoad(length, tokens, count) for length, count in dict.fromkeys(wanted))


class EngineProbes:
    """Probes of a served model."""

    def __init__(self, url: str, model: str | None, *, api: str = "chat", headers: Mapping[str, str]) -> None:
        self.address = read_address(url)
        if self.address.scheme == "grpc":
            raise WorkloadError(f"`{url}` is not a server with the OpenAI API", hint="write it as http://host:port")
        self._params: dict[str, Any] = {"model": model, "api": api, "headers": dict(headers), "fixed_length": True}
        try:
            self.model = choose_model(self.address, read_options(self._spec(8, 8), OpenAIOptions))
        except WorkloadError as error:
            if getattr(error, "status", None) in (401, 403):
                raise _refused_key(url) from None
            raise
        self.notes: list[str] = []
        self._sent = 0

    def limits(self) -> EngineLimits:
        """What the server says of itself: the size of its cache (vLLM), its slots (llama.cpp)."""
        page = page_of(self.address, PATH)
        sizes = read_sizes(page) if page else {}
        return EngineLimits(_slots(self.address), sizes.get("kv_cache_size_tokens"))

    def refuse_unfit(self, loads: Sequence[ProbeLoad]) -> None:
        """Raise WorkloadError if a request would be longer than the model's context or the server's cache."""
        longest = max(load.prompt + max(_lengths(load.tokens)) for load in loads)
        context = longest_context(self.address, self._params["headers"], self.model)
        cached = self.limits().cache_tokens
        for what, most in (("the context of its model", context), ("its cache", cached)):
            if most is not None and longest > most:
                raise WorkloadError(
                    f"requests of up to {longest} tokens are too long for `{self.address.name}`: {what} holds {most}",
                    hint="lower --prompt or --tokens, or start it with a longer context",
                )

    def carry_out(
        self, loads: Sequence[ProbeLoad], *, seconds: float, say: Callable[[str], None] = lambda _: None
    ) -> tuple[ProbedLoad, ...]:
        """Probe load after load within this time, several times; of each load the middle pass counts.

        Raises:
            WorkloadError: The server refuses, fails, answers in groups of tokens, or is busy with other requests.
        """
        return asyncio.run(self._all(loads, seconds, say))

    async def _all(
        self, loads: Sequence[ProbeLoad], seconds: float, say: Callable[[str], None]
    ) -> tuple[ProbedLoad, ...]:
        each_s = seconds / (PASSES * len(loads) + 1)
        before = self._answered()
        await self._probe(ProbeLoad(loads[0].prompt, loads[0].tokens, 1), each_s / 4)  # its first requests are slow
        await self._look_for_cache(max(loads, key=lambda load: load.prompt))
        passes = [[await self._probe(load, each_s) for load in loads]]
        self._refuse_groups(passes[0])
        passes += [[await self._probe(load, each_s) for load in loads] for _ in range(PASSES - 1)]
        self._refuse_strangers(before)
        probed = [_merged(load, seen) for load, seen in zip(loads, zip(*passes, strict=True), strict=True)]
        for load in probed:
            seen = f"{load.ms.middle:.3g} ms per request"
            if load.ttft and load.tpot:
                seen = f"ttft {load.ttft.middle:.3g} ms, tpot {load.tpot.middle:.3g} ms"
            say(f"{load.prompt} tokens, {load.load.in_flight} in flight: {seen}")
        whole = sum(load.tpot is None for load in probed)
        if whole:
            self.notes.append(
                f"Tokens came together at {whole} of {len(probed)} loads, as if it or this client lacked a core: "
                "the times of whole requests count there."
            )
        unit, unsteady = max((load.steadiest for load in probed), key=lambda steadiest: steadiest[1].spread)
        if unsteady.spread > _NOISY:
            least, most = min(unsteady.passes), max(unsteady.passes)
            difference = f"the same requests took {least:.3g} to {most:.3g} {unit} in {PASSES} passes"
            if unsteady.spread > _BUSY:
                raise WorkloadError(
                    f"`{self.address.name}` or its machine is busy with other work: {difference}",
                    hint="calibrate it while nothing else uses it or its machine",
                )
            self.notes.append(f"It or its machine did other work: {difference}, which the ranges include.")
        return tuple(probed)

    def _refuse_groups(self, probed: Sequence[Sequence[TimedRequest]]) -> None:
        """Speculation sends several tokens at a time at every load; a front end that is late, at some."""
        grouped = max(sum(seen.chunks for seen in some) / sum(seen.tokens_out for seen in some) for some in probed)
        if grouped < _GROUPED:
            raise WorkloadError(
                f"`{self.address.name}` sends {1 / grouped:.2g} tokens at a time, which hides its steps",
                hint="turn speculative decoding and grouping of tokens off while it is calibrated",
            )

    def _answered(self) -> int | None:
        """Requests that the server has answered so far, if it counts them.

        Raises:
            WorkloadError: It is answering requests now, none of which are ours.
        """
        page = page_of(self.address, PATH)
        if page is None:
            return None
        running = sum(reading.value for reading in read_metrics(page) if reading.known.sensor in ("running", "queue"))
        if running > 0:
            raise WorkloadError(
                f"`{self.address.name}` has {running:.0f} requests of others, which would count as its speed",
                hint="calibrate it while nothing else uses it",
            )
        return answered(page)

    def _refuse_strangers(self, before: int | None) -> None:
        after = None if before is None else self._answered()
        if before is None or after is None:
            return
        others = after - before - self._sent
        if others > (_STRANGERS - 1) * self._sent:
            raise WorkloadError(
                f"`{self.address.name}` answered {others} requests of others meanwhile, which slowed our {self._sent}",
                hint="calibrate it while nothing else uses it",
            )

    async def _probe(self, load: ProbeLoad, seconds: float) -> list[TimedRequest]:
        """Requests of a load without the first in flight, which start together."""
        clients = [self.client(load.prompt, tokens) for tokens in _lengths(load.tokens)]
        numbers, until = iter(range(load.requests)), time.monotonic() + seconds
        try:
            async with asyncio.TaskGroup() as group:
                workers = [group.create_task(self._worker(clients, numbers, until)) for _ in range(load.in_flight)]
        except ExceptionGroup as failed:
            raise self._failure(failed) from None
        finally:
            for client in clients:
                await client.close()
        timed = sorted(
            (request for worker in workers for request in worker.result()), key=lambda request: request.number
        )
        self._sent += len(timed)
        return timed[load.in_flight :] or timed

    async def _worker(
        self, clients: Sequence[OpenAIClient], numbers: Iterator[int], until: float
    ) -> list[TimedRequest]:
        timed = []
        for number in numbers:
            timed.append(await timed_request(clients[number % len(clients)], number))
            if time.monotonic() > until:
                break
        return timed

    async def _look_for_cache(self, load: ProbeLoad) -> None:
        """The same prompt twice, several times over: a prefix cache answers the second sooner."""
        ratios = []
        for seed in range(REPEATED):
            client = self.client(load.prompt, _lengths(load.tokens)[0], repeat=True, seed=seed)
            try:
                first, second = await timed_request(client, 0), await timed_request(client, 0)
            except WorkloadError as error:
                raise self._failure(ExceptionGroup("", [error])) from None
            finally:
                await client.close()
            self._sent += 2
            ratios.append((second.ttft_ms or second.ms) / (first.ttft_ms or first.ms))
        if median(ratios) < _CACHED:
            self.notes.append(
                "Its prefix cache is on, which would bias the fit if prompts began alike: all probes have new prompts, "
                "and the calibration is that of prompts it hasn't seen."
            )

    def client(self, prompt: int, tokens: int, *, repeat: bool = False, seed: int = 0) -> OpenAIClient:
        """A client that sends new prompts of this length, unless they are to repeat."""
        spec = self._spec(prompt, tokens, repeat=repeat).model_copy(update={"seed": seed})
        return OpenAIClient(ServerPlace(self.address, None, None), spec, read_options(spec, OpenAIOptions), self.model)

    def _spec(self, prompt: int, tokens: int, *, repeat: bool = False) -> WorkloadSpec:
        params = self._params | {"prompts": {"tokens": prompt, "repeat": repeat}}
        return WorkloadSpec(name=f"{OPENAI}{self.address.name}", tokens=tokens, params=params)

    def _failure(self, failed: ExceptionGroup[Exception]) -> Exception:
        for error in failed.exceptions:
            if not isinstance(error, RequestFailed):
                continue
            if error.kind in ("http 401", "http 403"):
                return _refused_key(self.address.name)
            if error.kind == "http 429":
                return WorkloadError(
                    f"`{self.address.name}` limits its requests (429), which would count as its speed",
                    hint="raise its limit, or calibrate with fewer in flight: --in-flight",
                )
            if error.kind in ("http 400", "http 413", "http 422"):
                return WorkloadError(
                    f"`{self.address.name}` refuses such requests: {error.message}",
                    hint="lower --prompt or --tokens if they are too long, or choose another API with --api",
                )
            if error.kind == "http 404":
                return WorkloadError(
                    f"`{self.address.name}` doesn't serve `{self.model}` there: {error.message}",
                    hint="name a served model with --model, or another API with --api",
                )
        return failed.exceptions[0]


def _lengths(tokens: int) -> tuple[int, ...]:
    return tuple(max(2, round(tokens * (1 + SPREAD * part))) for part in (-1, 0, 1))


async def timed_request(client: OpenAIClient, number: int) -> TimedRequest:
    """Send a request, and time its tokens.

    Tokens that wait together, because a busy core keeps the server from sending or this process from reading them, have
    the time of the last of them: those after the first read tell the time per token, and from that the first token's.
    """
    marks: dict[int, int] = {}
    answer = await client.request(number, marks.__setitem__)
    ends = sorted(at for slot, at in marks.items() if 0 <= slot < client.tokens)
    chunks, tokens = len(ends), answer.tokens_out or len(ends)
    first_ns, last_ns = ends[0], ends[-1]
    together = ends.count(first_ns)
    ttft_ms = tpot_ms = None
    if 0 < (chunks - 1) * _READ_APART <= chunks - together:
        chunk_ns = (last_ns - first_ns) / (chunks - together)
        ttft_ms = max((first_ns - marks[SENT] - chunk_ns * (together - 1)) / 1e6, _LEAST_MS)
        tpot_ms = chunk_ns * (chunks - 1) / max(tokens - 1, 1) / 1e6
    return TimedRequest(number, answer.tokens_in, chunks, tokens, (last_ns - marks[SENT]) / 1e6, ttft_ms, tpot_ms)


def _merged(load: ProbeLoad, passes: Sequence[Sequence[TimedRequest]]) -> ProbedLoad:
    """One load in several passes."""
    requests = [request for seen in passes for request in seen]
    counted = [request.tokens_in for request in requests if request.tokens_in]
    whole = _time([[request.ms for request in seen] for seen in passes])
    apart = [[request for request in seen if request.tpot_ms is not None] for seen in passes]
    apart = [some for some, seen in zip(apart, passes, strict=True) if 2 * len(some) >= len(seen)]
    ttft = tpot = None
    if 2 * len(apart) > len(passes):
        ttft, tpot = (
            _time([[getattr(request, name) for request in some] for some in apart]) for name in ("ttft_ms", "tpot_ms")
        )
    return ProbedLoad(load, round(fmean(counted)) if counted else load.prompt, len(requests), ttft, tpot, whole)


def _time(passes: Sequence[Sequence[float]]) -> ProbedTime:
    middles = tuple(_middle(values) for values in passes)
    pooled = sorted(value for values in passes for value in values)
    return ProbedTime(median(middles), pooled[ceil(0.95 * len(pooled)) - 1], middles)


def _middle(values: Sequence[float]) -> float:
    """Mean of the middle half: as little moved by stragglers as a median."""
    ordered = sorted(values)
    cut = len(ordered) // 4
    return fmean(ordered[cut : len(ordered) - cut])


def _refused_key(name: str) -> WorkloadError:
    return WorkloadError(f"`{name}` refuses the key", hint="name the variable that holds it: --key-env OPENAI_API_KEY")


def _slots(address: Address) -> int | None:
    """Sequences that llama.cpp's server takes at once."""
    try:
        status, body = ask(address, "/props", within_s=2.0)
        slots = json.loads(body).get("total_slots") if status == 200 else None
    except (OSError, http.client.HTTPException, ValueError, AttributeError):
        return None
    return slots if isinstance(slots, int) and slots > 0 else None
