"""Continuous batching as in vLLM: which tokens of which requests a step computes.

Running sequences come first, then waiting prompts in chunks, within a budget of tokens, a number of sequences, and the
blocks of the cache. When blocks run out, the youngest sequence gives its blocks up and is computed again later.
Compiled, because tails need many steps.
"""

from dataclasses import dataclass

import numpy as np

from cotenant.errors import DoesNotFit
from cotenant.extras import compiled
from cotenant.prediction.engines.step import StepShape
from cotenant.prediction.kernels.columns import Floats, Ints

PROMPT, TARGET, KNOWN, COMPUTED, HELD, SHARED = range(6)
"""Columns of a request: tokens of its prompt, of all, those known and computed so far, blocks of its own and shared."""
RUNNING, HEAD, QUEUED, FREE, PREEMPTIONS, COUNT = range(6)
"""Counters: running sequences, the first in the line and its length, free blocks, preemptions, requests that came."""
SEQUENCES, TOKENS, BLOCK = range(3)
"""Limits."""
NO_STEP = -1


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Limits of an engine."""

    max_sequences: int = 256
    """vLLM's `max_num_seqs`."""
    max_tokens: int = 8192
    """Tokens of a step; vLLM's `max_num_batched_tokens`."""
    blocks: int = 2**20
    """Blocks of the cache."""
    block_tokens: int = 16
    prefix_hits: float = 0.0
    """Share of each prompt found in the cache."""

    def check(self, prompt: int, output: int) -> None:
        """Raise DoesNotFit if the cache can't hold such a request alone."""
        if -(-(prompt + output) // self.block_tokens) > self.blocks:
            raise DoesNotFit(
                f"a request of {prompt + output} tokens doesn't fit the engine's cache of "
                f"{self.blocks * self.block_tokens} tokens",
                hint="shorten the request, quantise the weights or the cache, or use a GPU with more memory",
            )


@dataclass(slots=True)
class BatchingState:
    """The sequences of an engine, as arrays for compiled code."""

    requests: Ints
    """Requests x columns."""
    running: Ints
    taken: Ints
    """Tokens of each running sequence in this step."""
    waiting: Ints
    """A ring of requests."""
    counters: Ints
    limits: Ints
    queries: Floats
    """Tokens of each prompt in this step, and those computed before."""
    contexts: Floats
    sampled: Ints
    """Requests that got a token in the last step, and those that were completed."""
    done: Ints

    @classmethod
    def of(cls, settings: EngineSettings, most_requests: int) -> "BatchingState":
        """An idle engine with room for this many requests."""
        most = settings.max_sequences
        counters = np.zeros(COUNT + 1, np.int64)
        counters[FREE] = settings.blocks

        def whole() -> Ints:
            return np.zeros(most, np.int64)

        return cls(
            np.zeros((most_requests, SHARED + 1), np.int64),
            whole(),
            whole(),
            np.zeros(most_requests + 1, np.int64),
            counters,
            np.array([settings.max_sequences, settings.max_tokens, settings.block_tokens], np.int64),
            np.zeros(most),
            np.zeros(most),
            whole(),
            whole(),
        )


class Batching:
    """The sequences of an engine, step by step."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self._state = BatchingState.of(settings, 64)

    @property
    def free_blocks(self) -> int:
        """Blocks of the cache that nothing holds."""
        return int(self._state.counters[FREE])

    @property
    def preemptions(self) -> int:
        """Sequences that had to give up their blocks so far."""
        return int(self._state.counters[PREEMPTIONS])

    @property
    def cached_share(self) -> float:
        """Share of the cache's blocks in use."""
        return 1.0 - self.free_blocks / self.settings.blocks

    def arrive(self, prompt: int, output: int) -> int:
        """Queue a request; returns its number.

        Raises:
            DoesNotFit: The cache can't hold this request alone.
        """
        self.settings.check(prompt, output)
        state = self._state
        number = int(state.counters[COUNT])
        if number == len(state.requests):
            self._grow()
        queue(state.requests, state.waiting, state.counters, prompt, output)
        return number

    def next_step(self) -> StepShape | None:
        """Choose the tokens of the next step; None if there is nothing to do."""
        state = self._state
        decoding, context, prompts = next_step(
            state.requests, state.running, state.taken, state.waiting, state.counters, state.limits,
            self.settings.prefix_hits, state.queries, state.contexts,
        )  # fmt: skip
        if decoding == NO_STEP:
            return None
        return StepShape(
            decoding, context, tuple(state.queries[:prompts].tolist()), tuple(state.contexts[:prompts].tolist())
        )

    def end_step(self) -> tuple[Ints, Ints]:
        """The step is over: requests that got a token, and those among them that are done."""
        state = self._state
        sampled, over = end_step(
            state.requests, state.running, state.taken, state.counters, state.sampled, state.done
        )  # fmt: skip
        return state.sampled[:sampled].copy(), state.done[:over].copy()

    def _grow(self) -> None:
        state, more = self._state, len(self._state.requests)
        line = state.waiting
        state.requests = np.concatenate([state.requests, np.zeros((more, SHARED + 1), np.int64)])
        state.waiting = np.concatenate([np.roll(line, -int(state.counters[HEAD])), np.zeros(more, np.int64)])
        state.counters[HEAD] = 0


@compiled(numpy_errors=False)
def queue(requests: Ints, waiting: Ints, counters: Ints, prompt: int, output: int) -> None:
    """Put a request at the end of the line."""
    number = counters[COUNT]
    requests[number, PROMPT] = requests[number, KNOWN] = prompt
    requests[number, TARGET] = prompt + output
    waiting[(counters[HEAD] + counters[QUEUED]) % waiting.size] = number
    counters[QUEUED] += 1
    counters[COUNT] += 1


@compiled(numpy_errors=False)
def next_step(  # noqa: PLR0915, PLR0917 - compiled code takes its arguments by position
    requests: Ints, running: Ints, taken: Ints, waiting: Ints, counters: Ints, limits: Ints, hits: float,
    queries: Floats, contexts: Floats,
) -> tuple[int, float, int]:  # fmt: skip
    """Fill in the tokens of the next step; returns sequences that decode, their contexts' sum, and prompts.

    The first is `NO_STEP` if there is nothing to do.
    """
    block, budget, preempted = limits[BLOCK], limits[TOKENS], False
    while True:
        left, blocks = limits[TOKENS], 0
        for slot in range(counters[RUNNING]):
            request = requests[running[slot]]
            chunk = min(request[KNOWN] - request[COMPUTED], left)
            left -= chunk
            taken[slot] = chunk
            blocks += max((request[COMPUTED] + chunk + block - 1) // block - request[SHARED] - request[HELD], 0)
        if blocks <= counters[FREE]:
            break
        counters[RUNNING] -= 1
        counters[PREEMPTIONS] += 1
        preempted = True
        last = running[counters[RUNNING]]
        counters[FREE] += requests[last, HELD]
        requests[last, HELD] = requests[last, COMPUTED] = 0
        counters[HEAD] = (counters[HEAD] - 1) % waiting.size
        waiting[counters[HEAD]] = last
        counters[QUEUED] += 1
    for slot in range(counters[RUNNING]):
        request = requests[running[slot]]
        more = max((request[COMPUTED] + taken[slot] + block - 1) // block - request[SHARED] - request[HELD], 0)
        request[HELD] += more
        counters[FREE] -= more
    budget = left
    while not preempted and counters[QUEUED] and budget > 0 and counters[RUNNING] < limits[SEQUENCES]:
        number = waiting[counters[HEAD]]
        request = requests[number]
        hit = min(int(request[PROMPT] * hits), request[KNOWN] - 1)
        hit -= hit % block
        chunk = min(request[KNOWN] - hit, budget)
        shared = hit // block  # blocks of a prefix belong to all that use it
        more = (hit + chunk + block - 1) // block - shared
        if more > counters[FREE]:
            break
        counters[HEAD] = (counters[HEAD] + 1) % waiting.size
        counters[QUEUED] -= 1
        counters[FREE] -= more
        request[HELD], request[COMPUTED], request[SHARED] = more, hit, shared
        budget -= chunk
        running[counters[RUNNING]], taken[counters[RUNNING]] = number, chunk
        counters[RUNNING] += 1
    decoding, prompts, total = 0, 0, 0.0
    for slot in range(counters[RUNNING]):
        if taken[slot] == 0:
            continue
        request = requests[running[slot]]
        if request[COMPUTED] >= request[PROMPT]:
            decoding += 1
            total += request[COMPUTED] + 1
        else:
            queries[prompts], contexts[prompts] = taken[slot], request[COMPUTED]
            prompts += 1
    return (decoding if decoding or prompts else NO_STEP), total, prompts


@compiled(numpy_errors=False)
def end_step(  # noqa: PLR0917 - compiled code takes its arguments by position
    requests: Ints, running: Ints, taken: Ints, counters: Ints, sampled: Ints, done: Ints
) -> tuple[int, int]:
    """Fill in the requests that got a token and those that are done; returns how many."""
    tokens, over, left = 0, 0, 0
    for slot in range(counters[RUNNING]):
        number = running[slot]
        request = requests[number]
        request[COMPUTED] += taken[slot]
        if request[COMPUTED] == request[KNOWN]:
            request[KNOWN] += 1
            sampled[tokens] = number
            tokens += 1
            if request[KNOWN] == request[TARGET]:
                counters[FREE] += request[HELD]
                request[HELD] = 0
                done[over] = number
                over += 1
                continue
        running[left] = number
        left += 1
    counters[RUNNING] = left
    return tokens, over
