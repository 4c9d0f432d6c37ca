"""One step of a search as a workload: stages that add up, correct slices and heads."""

import time
from collections import Counter

import numpy as np
import pytest
import torch

from cotenant.devices.simulated.simulated_gpu import request_of
from cotenant.errors import WorkloadError
from cotenant.ranking.candidates import find_candidate, input_shape
from cotenant.ranking.data import open_data
from cotenant.ranking.pipeline.extractor import BatchesAhead, LoaderTimes, assemble, cut_of, survey
from cotenant.ranking.pipeline.stages import _with_weights
from cotenant.ranking.pipeline.workload import STAGES
from cotenant.workloads import find
from cotenant.workloads.protocol import WorkloadSpec

PIPELINE = find("search-pipeline")


class Cpu:
    torch_device = "cpu"
    default_dtype = "float32"


def spec(candidate="resnet18-mini", *, batch=4, batches=3, layers="full", mode=None, seq=None, **params):
    return WorkloadSpec(
        name="search-pipeline",
        batch=batch,
        layers=layers,
        mode=mode,
        seq=seq,
        params={"candidate": candidate, "batches": batches, **params},
    )


def served(built):
    """Run one request; return the last stage's result, and seconds by stage and in total."""
    value, seconds, begin = None, Counter(), time.perf_counter()
    for stage in built.stages:
        at = time.perf_counter()
        value = stage.run(value)
        seconds[stage.name] += time.perf_counter() - at
    return value, seconds, time.perf_counter() - begin


class TestStages:
    def test_a_request_has_them_in_order_and_all_batches_after_the_first(self):
        stages = PIPELINE.build(spec(batches=3), Cpu()).stages
        names = [stage.name for stage in stages]
        batch = ["load_data", "data_to_device", "inference", "to_host"]
        assert names == ["load_model", "model_to_device", "first_batch", *batch, *batch, "score"]
        assert set(names) == set(STAGES)
        assert [stage.name for stage in stages if stage.first_output] == ["first_batch"]

    @pytest.mark.parametrize(
        "of",
        [
            {},
            {"candidate": "vit-b-16-mini", "layers": "last 1"},
            {"candidate": "bert-base-mini", "heads": 2, "joined": "last 50%"},
        ],
    )
    def test_they_add_up_to_the_full_request(self, of):
        built = PIPELINE.build(spec(**of), Cpu())
        left_out = []
        for _ in range(6):  # other work on the machine may come between two stages, but not every time
            _, seconds, whole = served(built)
            left_out.append(1 - sum(seconds.values()) / whole)
        assert 0 <= min(left_out) < 0.02

    def test_pipelined_gives_the_same_scores_and_reports_its_overlap(self):
        alone, _, _ = served(PIPELINE.build(spec(), Cpu()))
        ahead = PIPELINE.build(spec(mode="pipelined", workers=2), Cpu())
        assert served(ahead)[0] == alone
        assert 0 <= ahead.facts["overlap"] <= 1

    def test_a_loader_that_is_never_waited_for_overlaps_fully(self):
        times = LoaderTimes()

        def slow(number):
            time.sleep(0.03)
            return {"number": number}

        loader = BatchesAhead(slow, 3, 1, times)
        time.sleep(0.15)
        assert [loader.next()["number"] for _ in range(2)] == [0, 1]
        loader.close()
        assert times.overlap() > 0.8

    def test_a_request_that_failed_leaves_no_loader_behind(self):
        built = PIPELINE.build(spec(mode="pipelined"), Cpu())
        built.stages[0].run(None)  # and then it fails
        assert len(served(built)[0]) == 1
        built.close()

    def test_every_request_loads_its_model_again(self):
        built = PIPELINE.build(spec(), Cpu())
        first, second = built.stages[0].run(None).model, built.stages[0].run(None).model
        assert first is not second
        assert all(map(torch.equal, first.state_dict().values(), second.state_dict().values()))

    def test_cold_drops_the_files_and_gives_the_same(self):
        assert served(PIPELINE.build(spec(start="cold"), Cpu()))[0] == served(PIPELINE.build(spec(), Cpu()))[0]

    def test_the_requested_number_of_classes_is_scored(self):
        for classes in (2, 100):
            built = PIPELINE.build(spec(classes=classes), Cpu())
            assert (built.facts["classes"], built.facts["labels"]) == (classes, "drawn")
        assert PIPELINE.build(spec(classes=10), Cpu()).facts["labels"] == "the data's"

    def test_random_weights_are_timed_and_their_scores_never_shown(self):
        built = PIPELINE.build(spec(), Cpu())
        served(built)
        assert "scores" not in built.facts


class TestParts:
    @pytest.mark.parametrize("name", ["resnet18-mini", "mobilenet-v2-mini", "vit-b-16-mini", "bert-base-mini"])
    def test_a_trunk_and_a_head_with_the_same_weights_are_the_full_model(self, name):
        entry = find_candidate(name)
        whole = _with_weights(
            entry, assemble(entry, cut=None, joined=None, heads=1, width=0, classes=0), 0, torch.float32
        )
        cut = cut_of(entry, survey(entry, 2, None), "last 50%")
        joined = assemble(entry, cut=None, joined=cut, heads=2, width=0, classes=0)
        given = whole.state_dict()
        joined.load_state_dict(
            {key: given["model." + key.rpartition("model.")[2]] for key in joined.state_dict()}, assign=True
        )
        data = open_data("embedded:fashion" if entry.family == "vision" else "embedded:glosses")
        batch = data.load([0, 1], input_shape(entry))
        with torch.inference_mode():
            expected, found = whole(**batch), joined(**batch)
        assert found.shape == (2, 2, expected.shape[1])
        assert torch.equal(found[:, 0], expected)
        assert torch.equal(found[:, 1], expected)

    def test_heads_of_one_layer_score_as_many_times(self):
        scores, _, _ = served(PIPELINE.build(spec(heads=3, joined="head", classes=2), Cpu()))
        assert len(scores) == 3

    def test_a_slice_reads_hidden_states_and_has_fewer_weights(self):
        whole, half = PIPELINE.properties(spec()), PIPELINE.properties(spec(layers="last 50%"))
        assert half.flops < 0.7 * whole.flops
        assert half.weight_bytes < whole.weight_bytes
        built = PIPELINE.build(spec(layers="last 2"), Cpu())
        assert built.facts["blocks"] == 2
        assert "hidden states" in built.facts["data"]
        served(built)

    def test_many_heads_on_one_trunk_cost_less_than_as_many_models(self):
        one, joined = PIPELINE.properties(spec()), PIPELINE.properties(spec(heads=5, joined="last 2"))
        assert one.flops < joined.flops < 3 * one.flops

    def test_padding_of_texts_is_ignored(self):
        entry = find_candidate("bert-base-mini")
        model = _with_weights(
            entry, assemble(entry, cut=None, joined=None, heads=1, width=0, classes=0), 0, torch.float32
        )
        data = open_data("embedded:glosses")
        with torch.inference_mode():
            short = model(**data.load([0], {"tokens": 40, "vocabulary": None, "size": 4096}))
            long = model(**data.load([0], {"tokens": 64, "vocabulary": None, "size": 4096}))
        assert torch.allclose(short, long, atol=1e-4)


class TestSimulated:
    def test_stages_have_their_kernels_and_the_hosts_time(self):
        one = spec("resnet18", batch=8, batches=3).model_copy(update={"dtype": "float32"})
        request = request_of(one)
        assert request.stages[:4] == ("load_model", "model_to_device", "first_batch", "load_data")
        assert len(np.unique(request.slot)) == len(request.stages) == 3 + 2 * 4 + 1
        assert request.waiting_ns[request.slot == 3].sum() == pytest.approx(8 / 282 * 1e9)
        assert not request.beside_ns.any()
        assert request.slot[request.first_output] == 2

    def test_pipelined_hosts_overlap_with_the_device(self):
        one = spec("resnet18", batch=8, batches=3, mode="pipelined", workers=4).model_copy(update={"dtype": "float32"})
        request = request_of(one)
        assert request.beside_ns[request.slot == 3].sum() == pytest.approx(8 / 282 / 4 * 1e9)
        loading = np.isin(request.slot, [0, len(request.stages) - 1])
        assert request.waited_ns == request.waiting_ns[loading].sum() > 0  # a model and a score can't be prefetched


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"candidate": "gpt2-mini"}, "be a candidate"),
        ({"candidate": "nothing-like-it"}, "no workload"),
        ({"candidate": "resnet18-mini", "layers": "last 99"}, "8 blocks"),
        ({"candidate": "resnet18-mini", "layers": "last 8"}, "leaves nothing out"),
        ({"candidate": "resnet18-mini", "mode": "fast"}, "no mode 'fast'"),
        ({"candidate": "resnet18-mini", "workers": 4}, "load ahead"),
        ({"candidate": "resnet18-mini", "heads": 3}, "need `joined`"),
        ({"candidate": "resnet18-mini", "joined": "head", "layers": "last 2"}, "no trunk to share"),
        ({"candidate": "resnet18-mini", "scorer": "leep"}, "logits"),
        ({"candidate": "resnet18-mini", "scorer": "logmee"}, "no scorer"),
        ({"candidate": "resnet18-mini", "batchs": 3}, "no param `batchs`"),
        ({"candidate": "resnet18-mini", "seq": 7}, "no sequence"),
        ({"candidate": "resnet18-mini", "data": "/nowhere/at/all"}, "no data '/nowhere/at/all'"),
        ({"candidate": "resnet18-mini", "data": "embedded:fashion@7"}, "not an image size"),
    ],
)
def test_impossible_options_are_refused_before_anything_starts(wrong, sentence):
    with pytest.raises(WorkloadError, match=sentence):
        PIPELINE.check(spec(**wrong))


def test_requests_that_differ_only_on_the_host_are_described_once(monkeypatch, tmp_path):
    from cotenant.ranking.pipeline import request_costs

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = PIPELINE.properties(spec())
    headed = PIPELINE.properties(spec(heads=2, joined="head", classes=10))
    monkeypatch.setattr(request_costs, "describe", lambda *_: pytest.fail("described again"))
    for same in (spec(classes=7), spec(start="cold"), spec(mode="pipelined", workers=4), spec(scorer="knn")):
        assert PIPELINE.properties(same) == first
    assert PIPELINE.properties(spec(heads=2, joined="head", classes=10, start="cold")) == headed
    for other in (spec(batch=5), spec(heads=2, joined="head", classes=11)):
        with pytest.raises(pytest.fail.Exception):
            PIPELINE.properties(other)


def test_data_of_another_kind_are_refused():
    with pytest.raises(WorkloadError, match="reads images"):
        PIPELINE.build(spec(data="embedded:glosses"), Cpu())


def test_a_candidate_is_required():
    with pytest.raises(WorkloadError, match="`candidate`"):
        PIPELINE.check(WorkloadSpec(name="search-pipeline"))
