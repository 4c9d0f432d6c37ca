"""Operators that recur are computed once, and a description is the same as if each had been computed."""

import pytest
import torch

from cotenant.workloads import find
from cotenant.workloads.models import watching
from cotenant.workloads.models.describing import describe
from cotenant.workloads.models.watching import Recurring
from cotenant.workloads.protocol import WorkloadSpec


class Forgetful(Recurring):
    """Every operator is new to it."""

    def find(self, form):
        del form


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("bert-base-mini", {}),
        ("gpt2-mini", {"mode": "generate", "tokens": 4}),
        ("resnet18-mini", {"train": True}),
        ("deepseek-v2-lite-mini", {"mode": "prefill"}),
        ("dlrm-mini", {}),
    ],
)
def test_a_description_is_the_same_as_without_memory(monkeypatch, name, more):
    entry, spec = find(name).entry, WorkloadSpec(name=name, batch=2, **more)
    monkeypatch.setattr(watching, "RECURRING", Forgetful())
    computed = describe(entry, spec)
    monkeypatch.setattr(watching, "RECURRING", Recurring())
    assert describe(entry, spec) == computed
    assert describe(entry, spec) == computed


def test_the_second_description_computes_only_what_writes_to_its_input(monkeypatch):
    entry, spec = find("resnet18-mini").entry, WorkloadSpec(name="resnet18-mini")
    first = describe(entry, spec)
    compute = watching._operator

    def in_place(func, *args, **kwargs):
        assert func._schema.is_mutable, f"{func} was computed again"
        return compute(func, *args, **kwargs)

    monkeypatch.setattr(watching, "_operator", in_place)
    assert describe(entry, spec) == first


def test_numbers_of_another_type_and_expanded_tensors_are_forms_of_their_own():
    whole = torch.empty(4, 4, dtype=torch.int64, device="meta")
    with watching.Watch() as watch:
        assert (whole * 2).dtype is torch.int64
        assert (whole * 2.0).dtype is torch.float32
        whole.clone()
        torch.empty(4, 1, dtype=torch.int64, device="meta").expand(4, 4).clone()
    assert [one.bytes_read for one in watch.operators if one.name == "clone"] == [128.0, 32.0]
