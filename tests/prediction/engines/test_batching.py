"""Continuous batching: which tokens a step computes, and what happens when the cache is full."""

import numpy as np
import pytest

from cotenant.errors import DoesNotFit
from cotenant.prediction.engines.continuous_batching import Batching, EngineSettings


def steps_of(batching, most=10_000):
    """Every step of the engine, with the requests that got a token and those that were completed."""
    found = []
    while (step := batching.next_step()) is not None and len(found) < most:
        sampled, over = batching.end_step()
        found.append((step, sampled.tolist(), over.tolist()))
    return found


def test_a_request_gets_its_first_token_with_its_prompt_and_one_per_step_after():
    batching = Batching(EngineSettings())
    batching.arrive(100, 4)
    steps = steps_of(batching)
    assert [step.tokens for step, _, _ in steps] == [100, 1, 1, 1]
    assert [step.decoding_context for step, _, _ in steps] == [0, 101, 102, 103]
    assert steps[-1][2] == [0]
    assert batching.free_blocks == batching.settings.blocks


def test_a_long_prompt_is_computed_in_chunks_beside_running_sequences():
    batching = Batching(EngineSettings(max_tokens=512))
    batching.arrive(10, 20)
    batching.next_step()
    batching.end_step()
    batching.arrive(1200, 2)
    shapes = [step for step, _, _ in steps_of(batching)][:4]
    assert [(shape.decoding, shape.queries, shape.contexts) for shape in shapes] == [
        (1, (511.0,), (0.0,)),
        (1, (511.0,), (511.0,)),
        (1, (178.0,), (1022.0,)),
        (2, (), ()),
    ]


def test_no_more_than_the_maximum_of_sequences_run_and_they_start_in_order():
    batching = Batching(EngineSettings(max_sequences=2))
    for _ in range(5):
        batching.arrive(8, 3)
    steps = steps_of(batching)
    assert max(step.sequences for step, _, _ in steps) == 2
    assert [number for _, _, over in steps for number in over] == [0, 1, 2, 3, 4]


def test_a_full_cache_preempts_the_youngest_and_every_token_is_still_made():
    batching = Batching(EngineSettings(blocks=20, block_tokens=16))
    for _ in range(4):
        batching.arrive(64, 60)
    steps = steps_of(batching)
    tokens = np.bincount([number for _, sampled, _ in steps for number in sampled])
    assert batching.preemptions > 0
    assert tokens.tolist() == [60, 60, 60, 60]
    assert [number for _, _, over in steps for number in over] == [0, 1, 2, 3]
    assert batching.free_blocks == 20


def test_a_prefix_hit_skips_tokens_but_not_their_context():
    batching = Batching(EngineSettings(prefix_hits=0.5))
    batching.arrive(1000, 2)
    (first, _, _), (second, _, _) = steps_of(batching)
    assert first.queries == (504.0,)  # hits are whole blocks of 16 tokens
    assert first.contexts == (496.0,)
    assert second.decoding_context == 1001


def test_a_request_that_the_cache_can_never_hold_is_refused_in_a_sentence():
    batching = Batching(EngineSettings(blocks=10, block_tokens=16))
    with pytest.raises(DoesNotFit, match=r"a request of 300 tokens doesn't fit the engine's cache of 160 tokens"):
        batching.arrive(200, 100)
