"""`last n` of every architecture in the catalogue contains n blocks, at full size, found by watching it run."""

import pytest
import torch

from cotenant.workloads.catalogue import model_entries
from cotenant.workloads.models.building import stand
from cotenant.workloads.models.entry import block_count, kept
from cotenant.workloads.models.inputs import make_inputs
from cotenant.workloads.models.skeleton import build_skeleton
from cotenant.workloads.models.watching import Watch
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.slices import ModelTail, find_blocks, plan_cut
from tests.support.architectures import one_of_each

pytestmark = pytest.mark.slow

DETECTORS = ("yolos-small",)
"""They use hidden states from the middle: no chain of blocks to cut."""
ENTRIES = one_of_each(
    entry
    for entry in model_entries()
    if entry.mini_of is None and block_count(entry) is not None and entry.name not in DETECTORS
)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_the_last_n_of_every_architecture_are_n_blocks(entry):
    spec = WorkloadSpec(name=entry.name, seq=None if entry.max_seq is None else 8)
    whole, inputs = stand(entry, spec, device="meta", dtype=torch.float32)
    with Watch():
        blocks = find_blocks(whole, inputs.ring[0])
    kind = type(whole.get_submodule(blocks.names[-1]))
    assert len(blocks.names) == block_count(entry) == sum(type(module) is kind for module in whole.modules())
    for layers in ("last 1", "last 3", "last 25%", "last 50%"):
        cut = plan_cut(blocks, layers)
        assert cut.blocks == kept(layers, len(blocks.names))
        assert cut.kept == blocks.names[-cut.blocks :]
    cut = plan_cut(blocks, "last 3")
    tail = ModelTail(build_skeleton(entry, entry.modes[0]).to("meta"), cut)
    tail.prompt = make_inputs(entry, spec, dtype=torch.float32, device="meta").ring[0]
    ran = []
    for module in tail.modules():
        if type(module) is kind:
            module.register_forward_hook(lambda module, args, out: ran.append(module))
    with Watch(), torch.inference_mode():
        tail(torch.empty(cut.hidden_shape, device="meta"))
    assert len(ran) == 3
