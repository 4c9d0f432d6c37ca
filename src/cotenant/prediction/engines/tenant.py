"""An engine as a tenant of a simulated device: its requests, step by step, beside any neighbour."""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from cotenant.prediction.contention.simulation import NEVER_NS, Requests
from cotenant.prediction.contention.trace import Trace
from cotenant.prediction.engines.alone import EngineRecord, keep
from cotenant.prediction.engines.continuous_batching import Batching, EngineSettings
from cotenant.prediction.engines.engine_profile import EngineProfile
from cotenant.prediction.engines.step import StepShape
from cotenant.prediction.engines.step_traces import StepTraces
from cotenant.prediction.kernels.columns import Floats, Ints


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """When requests arrive at an engine, and the memory it may use."""

    window_end_ns: float
    memory_bytes: float
    arrivals_ns: Ints | None = None
    """Due times of an open load; None: closed."""
    in_flight: int = 0
    ramp_ns: float = 0.0
    """Time over which a closed load starts."""
    timed: bool = False
    """Keep how long each step takes alone."""

    def due_ns(self) -> list[float]:
        """When the first requests are due, as a heap; a closed load starts over a while, so as not to stay in step."""
        started = np.arange(self.in_flight) * (self.ramp_ns / max(self.in_flight, 1))
        due: list[float] = (started if self.arrivals_ns is None else self.arrivals_ns.astype(np.float64)).tolist()
        heapify(due)
        return due


class EngineTenant:
    """Serves equal requests of an open or a closed load."""

    def __init__(
        self,
        traces: StepTraces,
        profile: EngineProfile,
        settings: EngineSettings,
        load: EngineLoad,
        *,
        prompt: int,
        output: int,
    ) -> None:
        self._traces, self._profile = traces, profile
        self._batching = Batching(settings)
        self._lengths = (prompt, output)
        self._load, self._due = load, load.due_ns()
        self._delay_ns = profile.request_us * 1e3
        self._open = 0
        self._step: StepShape | None = None
        self._started_ns = 0.0
        self.record = EngineRecord()
        self._alone_ns = list[float]()

    @property
    def most_kernels(self) -> int:
        """Kernels of a step."""
        return self._traces.most_kernels

    @property
    def finished(self) -> bool:
        """Whether every request due in the window is done."""
        return self._open == 0 and (not self._due or self._due[0] >= self._load.window_end_ns)

    def begin(self, now_ns: float) -> tuple[Trace | None, float]:
        """The next step, and when it can start."""
        start_ns = now_ns
        self._admit(now_ns)
        step = self._batching.next_step()
        if step is None:
            start_ns = self._next_seen()
            if start_ns >= NEVER_NS:
                return None, NEVER_NS
            self._admit(start_ns)
            step = self._batching.next_step()
            assert step is not None, "a request that arrives at an idle engine starts"
        self._step, self._started_ns = step, start_ns
        trace = self._traces.of(self._profile, step)
        if self._load.timed:
            self._alone_ns.append(trace.alone_ns())
        return trace, start_ns

    def end(self, now_ns: float, device_ns: float) -> None:
        """Hand out the step's tokens; a closed load sends the next requests."""
        assert self._step is not None
        over = keep(self.record, self._batching, self._step, start=self._started_ns, end=now_ns, device=device_ns)
        self.record.preemptions = self._batching.preemptions
        for number in over:
            self._open -= self.record.intended[int(number)] < self._load.window_end_ns
            if self._load.arrivals_ns is None:
                heappush(self._due, now_ns)

    def stretch(self) -> Floats:
        """By step: its time over that alone, if it was to be timed."""
        lasted = np.array(self.record.step_end) - np.array(self.record.step_start)
        return np.asarray(lasted / np.array(self._alone_ns[: lasted.size]))

    def requests(self) -> Requests:
        """Requests that are done, in order of arrival; stages end with their tokens."""
        tokens = self.record.tokens()
        first, last, _ = tokens.bounds()
        done = np.sort(tokens.finished)
        output = self._lengths[1]
        inside = np.isin(tokens.request, done)
        times = tokens.time[inside].reshape(done.size, output)
        started = self._begun(done)
        # Host work before the kernels, to the device, the prompt, each further token, to the host, host work after.
        ends = np.column_stack([started, started, times, last[done], last[done]])
        return Requests(
            intended=tokens.intended[done],
            started=started,
            first=first[done],
            done=last[done],
            device=self._device_ns(tokens.intended.size)[done],
            slot_ends=ends,
            facts=self._facts(),
        )

    def _facts(self) -> dict[str, float]:
        record = self.record
        lasted = np.array(record.step_end) - np.array(record.step_start)
        if not lasted.sum() > 0:
            return {}
        return {
            "sequences_per_step": float(np.average(record.step_sequences, weights=lasted)),
            "most_sequences": float(max(record.step_sequences)),
            "cache_used": float(np.average(record.cached, weights=lasted)),
            "most_cache_used": float(max(record.cached)),
            "cache_tokens": float(self._batching.settings.blocks * self._batching.settings.block_tokens),
            "preemptions": float(record.preemptions),
            "steps": float(lasted.size),
        }

    def _begun(self, done: Ints) -> Floats:
        """When the step that computed the end of a prompt started, at the latest when its first token came."""
        starts = np.array(self.record.step_start)
        intended = np.array(self.record.intended)[done]
        after = np.searchsorted(starts, intended)
        return np.maximum(intended, starts[np.minimum(after, starts.size - 1)]) if starts.size else intended

    def _device_ns(self, size: int) -> Floats:
        """Each request's part of the steps that gave it a token."""
        device_ns = np.zeros(size)
        for sampled, device, sequences in zip(
            self.record.sampled, self.record.step_device, self.record.step_sequences, strict=True
        ):
            device_ns[sampled] += device / max(sequences, 1)
        return device_ns

    def _admit(self, now_ns: float) -> None:
        while self._next_seen() <= now_ns:
            self._arrive(heappop(self._due))

    def _next_seen(self) -> float:
        """When the engine sees its next request, which is due before."""
        return self._due[0] + self._delay_ns if self._due else NEVER_NS

    def _arrive(self, due_ns: float) -> None:
        self._batching.arrive(*self._lengths)
        self.record.intended.append(due_ns)
        self._open += due_ns < self._load.window_end_ns
