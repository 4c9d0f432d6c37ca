"""Forward passes of any module in chunks, alone or batched."""

from collections.abc import Callable, Sequence
from typing import Any

from cotenant.scheduling import RequestId
from cotenant.serving.workers.batches import apart, rows_of, shape_of, together
from cotenant.serving.workers.chunking import Cuts, Running
from cotenant.serving.workers.recorded import GraphReplay, Recordings
from cotenant.serving.workers.work import Call, ChunkProgress, Prompt, Tell


class _Batch:
    """Requests that run as one call, from first to last chunk."""

    def __init__(self, members: Sequence[RequestId], calls: Sequence[Call], running: Running | GraphReplay) -> None:
        self.members = list(members)
        self.calls = list(calls)
        self.running = running
        self.wanted = set(members)


class ForwardEngine:
    """Calls a function for each request, in chunks if it has cuts, as graphs where it has recordings."""

    def __init__(
        self,
        function: Callable[..., Any],
        cuts: Cuts | None = None,
        *,
        batches: bool = False,
        recordings: Recordings | None = None,
    ) -> None:
        self._function = function
        self._cuts = cuts
        self._batches = batches
        self._recordings = recordings
        self.stages = cuts.chunks if cuts else 1
        self._waiting: dict[RequestId, Call] = {}
        self._begun: dict[RequestId, _Batch] = {}

    def take(self, request: RequestId, work: Call | Prompt) -> None:
        """Keep the arguments until the first chunk."""
        assert isinstance(work, Call)
        self._waiting[request] = work

    def run(self, requests: Sequence[RequestId], stage: int) -> ChunkProgress:
        """Run the requests up to their next cut; at the last stage, to the end."""
        if stage == 0:
            self._begin([request for request in requests if request in self._waiting])
        progress = ChunkProgress()
        batches = {id(batch): batch for request in requests if (batch := self._begun.get(request)) is not None}
        for batch in batches.values():
            self._advance(batch, progress, last=stage >= self.stages - 1)
        return progress

    def step(self, requests: Sequence[RequestId], steps: int, tell: Tell | None = None) -> ChunkProgress:
        """It has no decode steps."""
        del tell
        raise AssertionError(f"{len(requests)} requests need {steps} decode steps, but a forward pass has none")

    def free(self, request: RequestId) -> None:
        """Forget a request; a call in progress ends when none of its members is wanted."""
        self._waiting.pop(request, None)
        batch = self._begun.pop(request, None)
        if batch is not None:
            batch.wanted.discard(request)
            if not batch.wanted:
                batch.running.abandon()

    def close(self) -> None:
        """Remove the cuts from the model."""
        for request in (*self._waiting, *self._begun):
            self.free(request)
        if self._cuts:
            self._cuts.close()

    def _begin(self, requests: Sequence[RequestId]) -> None:
        groups: dict[Any, list[RequestId]] = {}
        for request in requests:
            call = self._waiting[request]
            alone = not self._batches or len(requests) == 1 or rows_of(call) is None
            groups.setdefault(("alone", request) if alone else shape_of(call), []).append(request)
        for members in groups.values():
            calls = [self._waiting.pop(member) for member in members]
            batch = _Batch(members, calls, self._started(together(calls)))
            self._begun.update(dict.fromkeys(members, batch))

    def _started(self, call: Call) -> Running | GraphReplay:
        replay = self._recordings.start(call) if self._recordings else None
        return replay or Running(lambda: self._function(*call.args, **call.kwargs))

    def _advance(self, batch: _Batch, progress: ChunkProgress, *, last: bool) -> None:
        try:
            ended = batch.running.advance()
            while last and not ended:  # a module called more than once yields additional chunks
                ended = batch.running.advance()
            if ended:
                self._hand_out(batch, batch.running.result, progress)
        except Exception as error:  # noqa: BLE001 - whatever a user's model raises belongs to its requests
            self._fail(batch, error, progress)

    def _hand_out(self, batch: _Batch, result: Any, progress: ChunkProgress) -> None:
        parts = [result] if len(batch.calls) == 1 else apart(result, [rows_of(call) or 1 for call in batch.calls])
        for member, part in zip(batch.members, parts, strict=True):
            if member in batch.wanted:
                progress.results[member] = part
            self._begun.pop(member, None)

    def _fail(self, batch: _Batch, error: Exception, progress: ChunkProgress) -> None:
        """One bad request doesn't fail its batch: each is retried alone."""
        for member, call in zip(batch.members, batch.calls, strict=True):
            self._begun.pop(member, None)
            if member not in batch.wanted:
                continue
            if len(batch.members) == 1:
                progress.failures[member] = error
                continue
            try:
                progress.results[member] = self._function(*call.args, **call.kwargs)
            except Exception as own:  # noqa: BLE001
                progress.failures[member] = own


# Calls that can be neither cut nor batched, each in one chunk.


class WholeEngine:
    """Calls a function for each request."""

    stages = 1

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._waiting: dict[RequestId, Call] = {}

    def take(self, request: RequestId, work: Call | Prompt) -> None:
        """Keep the arguments until the chunk."""
        assert isinstance(work, Call)
        self._waiting[request] = work

    def run(self, requests: Sequence[RequestId], stage: int) -> ChunkProgress:
        """Call the function for each request."""
        del stage
        progress = ChunkProgress()
        for request in requests:
            call = self._waiting.pop(request, None)
            if call is None:
                continue
            try:
                progress.results[request] = self._function(*call.args, **call.kwargs)
            except Exception as error:  # noqa: BLE001 - whatever a user's function raises belongs to its request
                progress.failures[request] = error
        return progress

    def step(self, requests: Sequence[RequestId], steps: int, tell: Tell | None = None) -> ChunkProgress:
        """It has no decode steps."""
        del tell
        raise AssertionError(f"{len(requests)} requests need {steps} decode steps, but a function has none")

    def free(self, request: RequestId) -> None:
        """Forget a request."""
        self._waiting.pop(request, None)

    def close(self) -> None:
        """Forget all requests."""
        self._waiting.clear()
