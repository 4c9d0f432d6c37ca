"""Probe a running engine with the OpenAI API: requests of several lengths, several in flight, timed by the client."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

from cotenant.clients.address import read_address
from cotenant.errors import RequestFailed, WorkloadError
from cotenant.workloads.protocol import SENT, WorkloadSpec
from cotenant.workloads.servers.client import ServerPlace
from cotenant.workloads.servers.openai import OpenAIClient, OpenAIOptions, choose_model
from cotenant.workloads.servers.spec import OPENAI
from cotenant.workloads.spec_options import read_options

SPREAD = 0.5
"""Answers are shorter and longer by up to this share, so that requests in flight don't end together."""
PASSES = 3
"""Passes over all loads: what slows a machine down for a while affects a single pass."""
_FEWEST, _ROUNDS = 6, 4
"""Requests of a probe: at least so many, and so many for each in flight."""
_BUSY = 1.3
"""A probe that takes this much longer when it is repeated shared the server with others."""
_GROUPED = 0.8
"""Fewer chunks per token than this: several tokens come at once."""
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
class ProbedLoad:
    """What clients saw at a load; each the mean of the middle half."""

    load: ProbeLoad
    prompt: int
    """Tokens as the server counts them."""
    requests: int
    ttft_ms: float
    tpot_ms: float
    ms: float


@dataclass(frozen=True, slots=True)
class _Timed:
    number: int
    tokens_in: int | None
    chunks: int
    tokens_out: int
    ttft_ms: float
    tpot_ms: float
    ms: float


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
        await self._probe(ProbeLoad(loads[0].prompt, loads[0].tokens, 1), each_s / 4)  # its first requests are slow
        await self._look_for_cache(max(loads, key=lambda load: load.prompt))
        passes = [[await self._probe(load, each_s) for load in loads] for _ in range(PASSES)]
        probed = [_middle_of(seen) for seen in zip(*passes, strict=True)]
        for load in probed:
            seen = f"ttft {load.ttft_ms:.3g} ms, tpot {load.tpot_ms:.3g} ms"
            say(f"{load.prompt} tokens, {load.load.in_flight} in flight: {seen}")
        alone = sorted(one_pass[0].tpot_ms for one_pass in passes)
        if alone[-1] > _BUSY * alone[0]:
            raise WorkloadError(
                f"`{self.address.name}` is busy with other work: the same requests took {alone[0]:.3g} ms per token in "
                f"one pass and {alone[-1]:.3g} ms in another",
                hint="calibrate it while nothing else uses it or its machine",
            )
        return tuple(probed)

    async def _probe(self, load: ProbeLoad, seconds: float) -> ProbedLoad:
        clients = [self._client(load.prompt, tokens) for tokens in _lengths(load.tokens)]
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
        steady = timed[load.in_flight :] or timed
        grouped = sum(request.chunks for request in timed) / sum(request.tokens_out for request in timed)
        if grouped < _GROUPED:
            raise WorkloadError(
                f"`{self.address.name}` sends {1 / grouped:.2g} tokens at a time, which hides its steps",
                hint="turn speculative decoding and grouping of tokens off while it is calibrated",
            )
        counted = [request.tokens_in for request in timed if request.tokens_in]
        return ProbedLoad(
            load,
            round(fmean(counted)) if counted else load.prompt,
            len(timed),
            _middle([request.ttft_ms for request in steady]),
            _middle([request.tpot_ms for request in steady]),
            _middle([request.ms for request in steady]),
        )

    async def _worker(self, clients: Sequence[OpenAIClient], numbers: Iterator[int], until: float) -> list[_Timed]:
        timed = []
        for number in numbers:
            timed.append(await _request(clients[number % len(clients)], number))
            if time.monotonic() > until:
                break
        return timed

    async def _look_for_cache(self, load: ProbeLoad) -> None:
        """The same prompt twice: a prefix cache answers the second sooner."""
        client = self._client(load.prompt, 8, repeat=True)
        try:
            first, second = await _request(client, 0), await _request(client, 0)
        except WorkloadError as error:
            raise self._failure(ExceptionGroup("", [error])) from None
        finally:
            await client.close()
        if second.ttft_ms < _CACHED * first.ttft_ms:
            self.notes.append(
                "Its prefix cache is on, which would bias the fit if prompts began alike: all probes have new prompts, "
                "and the calibration is that of prompts it hasn't seen."
            )

    def _client(self, prompt: int, tokens: int, *, repeat: bool = False) -> OpenAIClient:
        spec = self._spec(prompt, tokens, repeat=repeat)
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
            if error.kind == "http 404":
                return WorkloadError(
                    f"`{self.address.name}` doesn't serve `{self.model}` there: {error.message}",
                    hint="name a served model with --model, or another API with --api",
                )
        return failed.exceptions[0]


def _lengths(tokens: int) -> tuple[int, ...]:
    return tuple(max(2, round(tokens * (1 + SPREAD * part))) for part in (-1, 0, 1))


async def _request(client: OpenAIClient, number: int) -> _Timed:
    marks: dict[int, int] = {}
    answer = await client.request(number, marks.__setitem__)
    chunks = sum(1 for slot in marks if 0 <= slot < client.tokens)
    ends = [at for slot, at in marks.items() if 0 <= slot < client.tokens]
    tokens = answer.tokens_out or chunks
    return _Timed(
        number,
        answer.tokens_in,
        chunks,
        tokens,
        (min(ends) - marks[SENT]) / 1e6,
        max((max(ends) - min(ends)) / 1e6 / max(tokens - 1, 1), 1e-6),
        (max(ends) - marks[SENT]) / 1e6,
    )


def _middle_of(passes: Sequence[ProbedLoad]) -> ProbedLoad:
    """One load in several passes: the median of each time."""
    return replace(
        passes[0],
        requests=sum(probed.requests for probed in passes),
        ttft_ms=median(probed.ttft_ms for probed in passes),
        tpot_ms=median(probed.tpot_ms for probed in passes),
        ms=median(probed.ms for probed in passes),
    )


def _middle(values: Sequence[float]) -> float:
    """Mean of the middle half: as little moved by stragglers as a median."""
    ordered = sorted(values)
    cut = len(ordered) // 4
    return fmean(ordered[cut : len(ordered) - cut])


def _refused_key(name: str) -> WorkloadError:
    return WorkloadError(f"`{name}` refuses the key", hint="name the variable that holds it: --key-env OPENAI_API_KEY")
