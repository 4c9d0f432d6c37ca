"""A server that batches what waits, such as vLLM for embeddings, TEI or Triton: requests of a batch end together."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

import numpy as np

from cotenant.prediction.contention.simulation import NEVER_NS, Requests
from cotenant.prediction.contention.trace import Trace
from cotenant.prediction.engines.tenant import EngineLoad
from cotenant.prediction.kernels.columns import Floats, Ints


@dataclass(slots=True)
class _Served:
    """Requests that are done, in the order of their batches."""

    intended: list[float] = field(default_factory=list)
    started: list[float] = field(default_factory=list)
    done: list[float] = field(default_factory=list)
    device: list[float] = field(default_factory=list)
    batch: list[int] = field(default_factory=list)


class BatchingTenant:
    """Serves equal requests of an open or a closed load: as soon as it is free, all that wait, up to a limit.

    Args:
        trace: The kernels of a batch, by its number of requests.
        most: Requests of the largest batch.
        load: When requests arrive.
    """

    def __init__(self, trace: Callable[[int], Trace], most: int, load: EngineLoad) -> None:
        self._most, self._load, self._due = most, load, load.due_ns()
        self._line: deque[float] = deque()
        self._batch: list[float] = []
        self._started_ns = 0.0
        self._sizes = [*(2**power for power in range(most.bit_length()) if 2**power < most), most]
        self._traces = {size: trace(size) for size in self._sizes}
        self._served = _Served()

    @property
    def most_kernels(self) -> int:
        """Kernels of the longest batch."""
        return max(trace.duration_ns.size for trace in self._traces.values())

    @property
    def finished(self) -> bool:
        """Whether every request due in the window is done."""
        waiting = (*self._batch, *self._line, *self._due[:1])
        return all(due >= self._load.window_end_ns for due in waiting)

    def begin(self, now_ns: float) -> tuple[Trace | None, float]:
        """The next batch, and when it can start."""
        start_ns = now_ns if self._line else max(now_ns, self._due[0] if self._due else NEVER_NS)
        while self._due and self._due[0] <= start_ns:
            self._line.append(heappop(self._due))
        if not self._line:
            return None, NEVER_NS
        self._batch = [self._line.popleft() for _ in range(min(len(self._line), self._most))]
        self._started_ns = start_ns
        return self._trace(len(self._batch)), start_ns

    def end(self, now_ns: float, device_ns: float) -> None:
        """All requests of the batch are done; a closed load sends the next."""
        served, count = self._served, len(self._batch)
        served.intended += self._batch
        served.started += [self._started_ns] * count
        served.done += [now_ns] * count
        served.device += [device_ns / count] * count
        served.batch += [count] * count
        if self._load.arrivals_ns is None:
            for _ in self._batch:
                heappush(self._due, now_ns)
        self._batch = []

    def requests(self) -> Requests:
        """Requests that are done, in order of arrival; of their stages, each has its part of the batch's time alone."""
        served = self._served
        order = np.argsort(np.array(served.intended), kind="stable")
        started, done, batch = (np.array(column)[order] for column in (served.started, served.done, served.batch))
        parts = {size: _parts(self._trace(size)) for size in np.unique(batch).tolist()}
        shares = np.array([parts[size] for size in batch.tolist()]).reshape(batch.size, -1)
        return Requests(
            intended=np.array(served.intended)[order],
            started=started,
            first=np.full(batch.size, -1.0),
            done=done,
            device=np.array(served.device)[order],
            slot_ends=started[:, None] + shares * (done - started)[:, None],
            facts=self._facts(batch),
        )

    def _trace(self, count: int) -> Trace:
        """Between two known sizes, in proportion."""
        if count not in self._traces:
            upper = bisect_left(self._sizes, count)
            low, high = self._sizes[upper - 1], self._sizes[upper]
            smaller, larger, weight = self._traces[low], self._traces[high], (count - low) / (high - low)
            same = smaller.duration_ns.size == larger.duration_ns.size
            before_ns = smaller.before_ns * (1 - weight) + larger.before_ns * weight
            between = replace(smaller.towards(larger, weight), before_ns=before_ns) if same else larger
            self._traces[count] = between
        return self._traces[count]

    def _facts(self, batch: Ints) -> dict[str, float]:
        """Batches count the same, whatever their size."""
        if not batch.size:
            return {}
        batches = float((1.0 / batch).sum())
        return {"requests_per_batch": batch.size / batches, "most_requests": float(batch.max()), "batches": batches}


def _parts(trace: Trace) -> Floats:
    """By slot, the share of a batch's time alone at which it ends."""
    kernels = [float(trace.duration_ns[trace.slot <= slot].sum()) for slot in range(int(trace.slot[-1]) + 1)]
    ends = np.array([0.0, *kernels, kernels[-1]]) + trace.before_ns
    ends[-1] += trace.after_ns
    return np.asarray(ends / ends[-1])
