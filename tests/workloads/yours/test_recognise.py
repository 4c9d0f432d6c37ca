"""The form of a name determines the kind of workload."""

import subprocess
import sys

import pytest

from cotenant.workloads.yours import recognise


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("package.module:function", "Function"),
        ("module:Class.method", "Function"),
        ("command: my-server --flag", "Command"),
        ("command:my-server", "Command"),
        ("http://localhost:8000/v1", "Endpoint"),
        ("https://example.org", "Endpoint"),
        ("model.pt", "TorchScriptFile"),
        ("./some where/model.TS", "TorchScriptFile"),
        ("model.pt2", "TorchScriptFile"),
        ("/data/model.onnx", "OnnxFile"),
    ],
)
def test_each_form_is_recognised(name, kind):
    workload = recognise(name)
    assert type(workload).__name__ == kind
    assert workload.name == name
    assert workload.family == "yours"
    assert workload.about


@pytest.mark.parametrize("name", ["bert-base", "sgemm", "org/model", "a:b:c", "module:", ":function", "1a:b", "a b:c"])
def test_other_names_are_left_to_others(name):
    assert recognise(name) is None


def test_recognising_imports_nothing_heavy():
    code = (
        "import sys; from cotenant.workloads.yours import recognise; recognise('a.b:c'); "
        "sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'onnxruntime')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
