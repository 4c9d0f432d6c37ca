"""TorchScript and ONNX files: fed with random inputs; pickles are refused unopened."""

import pickle
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from cotenant.errors import WorkloadError
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.yours import recognise
from cotenant.workloads.yours.files import made_up
from cotenant.workloads.yours.onnx_file import filled_shape


class Here:
    torch_device = "cpu"
    default_dtype = "float32"


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(100, 8)
        self.head = torch.nn.Linear(8, 3)

    def forward(self, ids):
        return self.head(self.words(ids))


class Sum(torch.nn.Module):
    def forward(self, a, b):
        return a + b.sum()


def saved(model: torch.nn.Module, path: Path, *example: torch.Tensor) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.trace(model, example), str(path))
    return str(path)


def build(name: str, **fields):
    spec = WorkloadSpec(name=name, **fields)
    workload = recognise(name)
    workload.check(spec)
    return workload.build(spec, Here())


def refusal(name: str, **fields) -> WorkloadError:
    with pytest.raises(WorkloadError) as refused:
        build(name, **fields)
    return refused.value


def test_a_torchscript_file_serves_batches_of_the_stated_shape(tmp_path):
    name = saved(torch.nn.Linear(4, 2), tmp_path / "model.pt", torch.zeros(1, 4))
    built = build(name, batch=3, params={"shape": [4]})
    assert built.stages[0].run(None).shape == (3, 2)
    assert built.dtype == "float32"
    assert built.facts["input_shapes"] == [[3, 4]]
    assert len(built.facts["sha256"]) == 64


def test_tokens_are_integers_of_the_tenants_length(tmp_path):
    name = saved(Tagger(), tmp_path / "tagger.ts", torch.zeros(1, 5, dtype=torch.int64))
    built = build(name, batch=2, seq=7, params={"shape": ["seq"], "input_dtype": "int64"})
    assert built.stages[0].run(None).shape == (2, 7, 3)


def test_several_inputs_have_a_shape_each(tmp_path):
    name = saved(Sum(), tmp_path / "sum.pt", torch.zeros(1, 2), torch.zeros(1, 3, dtype=torch.int64))
    built = build(name, params={"shape": [[2], [3]], "input_dtype": ["float32", "int64"]})
    assert built.stages[0].run(None).shape == (1, 2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "needs the param `shape`"),
        ({"params": {"shape": [0]}}, ": param `shape` is [0]: every dimension is at least 1"),
        ({"params": {"shape": ["seq"]}}, "has a dimension `seq`, but the tenant has no `seq`"),
        ({"params": {"shape": [4]}, "seq": 3}, "has `seq: 3`, but its shape has no dimension `seq`"),
        ({"params": {"shape": [4]}, "dtype": "float16"}, "has no dtype, but the tenant sets `dtype: float16`"),
        ({"params": {"shape": [[4], [4]], "input_dtype": ["int8"]}}, "2 inputs, but 1 number formats"),
        ({"params": {"shape": [5]}}, "fails on inputs of shape (1, 5): "),
    ],
)
def test_inputs_that_do_not_fit_are_reported(tmp_path, fields, message):
    name = saved(torch.nn.Linear(4, 2), tmp_path / "model.pt", torch.zeros(1, 4))
    error = refusal(name, **fields)
    assert message in error.message
    assert "\n" not in error.message


class Boom:
    """Writes a file when it is unpickled: proof that code ran."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_pickle_is_refused_and_never_opened(tmp_path):
    proof = tmp_path / "code-ran"
    torch.save({"weight": Boom(proof)}, tmp_path / "state.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Boom(proof)))
    for name in ("state.pt", "plain.pt"):
        error = refusal(str(tmp_path / name), params={"shape": [4]})
        assert "is not a TorchScript file" in error.message
        assert "pickles are never opened" in error.message
    assert not proof.exists()


def test_a_pickle_inside_a_torchscript_archive_runs_no_python(tmp_path):
    proof = tmp_path / "code-ran"
    saved(torch.nn.Linear(4, 2), tmp_path / "model.pt", torch.zeros(1, 4))
    forged = tmp_path / "forged.pt"
    with zipfile.ZipFile(tmp_path / "model.pt") as source, zipfile.ZipFile(forged, "w") as target:
        for entry in source.namelist():
            hostile = entry.endswith(("/data.pkl", "/constants.pkl"))
            target.writestr(entry, pickle.dumps(Boom(proof), protocol=2) if hostile else source.read(entry))
    assert "can't be loaded" in refusal(str(forged), params={"shape": [4]}).message
    assert not proof.exists()


def test_export_archives_are_refused_because_torch_unpickles_them(tmp_path):
    (tmp_path / "model.pt2").write_bytes(b"anything")
    error = refusal(str(tmp_path / "model.pt2"), params={"shape": [4]})
    assert "torch.export archive, parts of which torch unpickles" in error.message


@pytest.mark.parametrize("suffix", ["pt", "onnx"])
def test_a_missing_file_is_reported(tmp_path, monkeypatch, suffix):
    monkeypatch.chdir(tmp_path)
    assert refusal(f"gone.{suffix}").message == f"there is no file `gone.{suffix}` (looked from {tmp_path})"
    (tmp_path / f"folder.{suffix}").mkdir()
    assert refusal(f"folder.{suffix}").message == f"`folder.{suffix}` is not a file"


def test_random_inputs_are_seeded_and_within_their_limits():
    assert np.array_equal(
        made_up((3,), "float32", integers_below=9, seed=1), made_up((3,), "float32", integers_below=9, seed=1)
    )
    integers = made_up((1000,), "int8", integers_below=1000, seed=1)
    assert 0 <= integers.min() <= integers.max() < 127
    assert made_up((4,), "bool", integers_below=1, seed=0).dtype == np.bool_


def test_a_machine_without_onnxruntime_is_reported(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setattr("cotenant.workloads.yours.onnx_file.find_spec", lambda name: None)
    (tmp_path / "model.onnx").write_bytes(b"")
    error = refusal(str(tmp_path / "model.onnx"))
    assert error.message.endswith("needs onnxruntime, which is not installed")
    assert error.hint == "install it with `pip install 'cotenant[onnx]'`"


def test_open_dimensions_are_filled_from_the_tenant():
    spec = WorkloadSpec(name="m.onnx", batch=4, seq=16, params={"dims": {"height": 8}})
    assert filled_shape("x", ["batch_size", "sequence_length", "height", 3], spec) == (4, 16, 8, 3)
    with pytest.raises(WorkloadError, match=r"input `x` of `m\.onnx` leaves its dimension `width` open"):
        filled_shape("x", ["n", "width"], spec)
    with pytest.raises(WorkloadError, match=r"`m\.onnx` was exported for a batch of 1, but the tenant sets `batch: 4`"):
        filled_shape("x", [1, 3], spec)


def onnx_model(path: Path) -> str:
    onnx = pytest.importorskip("onnx")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    weight = onnx.numpy_helper.from_array(np.ones((4, 2), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", floats, ["n", 4])],
        [helper.make_tensor_value_info("y", floats, ["n", 2])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, str(path))
    return str(path)


def test_an_onnx_file_serves_batches_of_its_own_shape(tmp_path):
    pytest.importorskip("onnxruntime")
    built = build(onnx_model(tmp_path / "model.onnx"), batch=3)
    assert built.stages[0].run(None)[0].shape == (3, 2)
    assert built.facts["inputs"] == {"x": [3, 4]}
    assert built.facts["provider"] == "CPUExecutionProvider"
    assert built.facts["threads"] == torch.get_num_threads()


def test_a_broken_onnx_file_is_reported(tmp_path):
    pytest.importorskip("onnxruntime")
    (tmp_path / "model.onnx").write_bytes(b"no model")
    message = refusal(str(tmp_path / "model.onnx")).message
    assert "model.onnx` can't be loaded: " in message
    assert "\n" not in message
