"""Graphs: replayed layer groups give the bits of a plain call, for one request at a time and its shape only."""

from contextlib import contextmanager

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from cotenant.errors import BadInput, ServingError
from cotenant.serving.workers.admission import build_engine
from cotenant.serving.workers.place import CpuPlace, CudaPlace, CudaRecorder, find_recorder
from cotenant.serving.workers.servable import build_servable
from cotenant.serving.workers.work import Call
from cotenant.workloads.protocol import WorkloadSpec

FORWARDS = ("bge-small-mini", "resnet18-mini")


class Tape(TorchDispatchMode):
    """A graph on the CPU: records operators with the tensors they used; a replay writes to the very same tensors."""

    def __init__(self):
        super().__init__()
        self.operators = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default):
            raise RuntimeError("operation not permitted when stream is capturing")
        made = function(*args, **(kwargs or {}))
        self.operators.append((function, args, kwargs or {}, made))
        return made

    def replay(self):
        for function, args, kwargs, made in self.operators:
            again = function(*args, **kwargs)
            for old, new in zip(_flat(made), _flat(again), strict=True):
                if old is not new and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


def _flat(made):
    return [one for one in (made if isinstance(made, tuple | list) else (made,)) if isinstance(one, torch.Tensor)]


class TapeRecorder:
    device = "cpu"

    def __init__(self):
        self.pools, self.tapes = 0, []

    def pool(self):
        self.pools += 1
        return self.pools

    def record(self, run, pool):
        with Tape() as tape:
            ended = run()
        self.tapes.append((pool, tape))
        return tape, ended


@pytest.fixture(autouse=True)
def quiet():
    with torch.inference_mode():
        yield


def layers(number=4, width=8):
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(number)))


def recorded(model, sample, *, largest=1, chunk_s=1e-9):
    recorder = TapeRecorder()
    return build_engine(model, sample, wait=lambda: None, largest=largest, chunk_s=chunk_s, recorder=recorder), recorder


def served(engine, **calls):
    """All stages of a batch of these calls."""
    for name, call in calls.items():
        engine.take(name, call)
    results, failures = {}, {}
    for stage in range(engine.stages):
        progress = engine.run(tuple(calls), stage)
        results |= progress.results
        failures |= progress.failures
    return results, failures


@pytest.mark.parametrize("name", FORWARDS)
def test_replayed_layer_groups_give_the_bits_of_a_plain_call(name):
    built = build_servable(WorkloadSpec(name=name), device="cpu", dtype="float32")
    engine, recorder = recorded(built.model, built.sample)
    assert len(recorder.tapes) == engine.stages > 1
    for number in range(2):
        torch.manual_seed(number)
        inputs = {
            key: torch.randn_like(value) if value.is_floating_point() else torch.randint_like(value, 1, 50)
            for key, value in built.sample.kwargs.items()
        }
        results, failures = served(engine, one=Call(kwargs=inputs))
        assert not failures
        for key, value in built.model(**inputs).items():
            assert torch.equal(results["one"][key], value)


def test_layer_groups_of_one_shape_share_memory_and_shapes_do_not():
    engine, recorder = recorded(layers(), Call((torch.randn(1, 8),)), largest=4)
    groups = [pool for pool, _ in recorder.tapes]
    assert sorted(set(groups)) == [1, 2, 3]  # batches of 1, 2 and 4
    assert {groups.count(pool) for pool in set(groups)} == {engine.stages}


def test_a_batch_takes_the_next_larger_recording_and_each_request_its_own_rows():
    model = layers()
    engine, _ = recorded(model, Call((torch.randn(1, 8),)), largest=4)
    inputs = {name: torch.randn(1, 8) for name in "abc"}
    results, _ = served(engine, **{name: Call((value,)) for name, value in inputs.items()})
    for name, value in inputs.items():
        torch.testing.assert_close(results[name], model(value))


def test_a_second_request_runs_beside_the_one_that_holds_the_recording():
    model = layers()
    engine, _ = recorded(model, Call((torch.randn(1, 8),)))
    first, second = torch.randn(1, 8), torch.randn(1, 8)
    engine.take(1, Call((first,)))
    engine.run((1,), 0)
    results, _ = served(engine, two=Call((second,)))
    for stage in range(1, engine.stages):
        results |= engine.run((1,), stage).results
    assert torch.equal(results["two"], model(second))
    assert torch.equal(results[1], model(first))


def test_an_abandoned_request_gives_the_recording_back():
    engine, recorder = recorded(layers(), Call((torch.randn(1, 8),)))
    engine.take(1, Call((torch.randn(1, 8),)))
    engine.run((1,), 0)
    engine.free(1)
    with counted(recorder) as replays:
        served(engine, two=Call((torch.randn(1, 8),)))
    assert len(replays) == engine.stages


def test_a_request_of_another_shape_runs_as_usual():
    model = nn.Sequential(nn.Conv1d(1, 1, 3), nn.Conv1d(1, 1, 3))
    engine, recorder = recorded(model, Call((torch.randn(1, 1, 16),)))
    other = torch.randn(1, 1, 32)
    with counted(recorder) as replays:
        results, _ = served(engine, one=Call((other,)))
    assert not replays
    assert torch.equal(results["one"], model(other))


def test_bad_input_is_refused_and_the_recording_stays_usable():
    built = build_servable(WorkloadSpec(name="bert-base-mini"), device="cpu", dtype="float32")
    engine, _ = recorded(built.model, built.sample)
    ids = built.sample.kwargs["input_ids"]
    _, failures = served(engine, bad=Call(kwargs={"input_ids": ids + 10**6}))
    assert isinstance(failures["bad"], BadInput)
    results, _ = served(engine, good=Call(kwargs={"input_ids": ids}))
    assert torch.equal(results["good"]["embedding"], built.model(input_ids=ids)["embedding"])


def test_a_model_that_waits_for_the_device_is_refused_with_the_reason():
    class Waits(nn.Module):
        def forward(self, value):
            return value * 2 if value.sum().item() > 0 else value

    with pytest.raises(ServingError, match="can't be recorded as graphs: RuntimeError: operation not permitted"):
        recorded(Waits(), Call((torch.randn(1, 8),)))


def test_graphs_need_a_device_that_has_them():
    assert find_recorder(CpuPlace(), "eager") is None
    assert find_recorder(CudaPlace("cuda:0"), "graphs").device == "cuda:0"
    with pytest.raises(ServingError, match=r"cpu can't serve with `software: graphs`"):
        find_recorder(CpuPlace(), "graphs")


def test_cuda_graphs_are_captured_on_the_stream_of_the_chunks_and_hinder_no_other_thread(monkeypatch):
    seen = []

    @contextmanager
    def graph(made, *, pool, stream, capture_error_mode):
        seen.append((made, pool, stream, capture_error_mode))
        yield

    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: "graph")
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: "stream")
    monkeypatch.setattr(torch.cuda, "graph", graph)
    recorder = CudaRecorder("cuda:0")
    assert recorder.record(lambda: True, recorder.pool()) == ("graph", True)
    assert seen == [("graph", "pool", "stream", "thread_local")]


@contextmanager
def counted(recorder):
    """The replays of all tapes."""
    replays = []
    for _, tape in recorder.tapes:
        tape.replay = lambda play=tape.replay: (replays.append(1), play())
    yield replays
