"""`cotenant kernels`: a trace on the command line."""

import json

import pytest

from cotenant.api.lists import list_kernels
from cotenant.cli.main import main
from cotenant.errors import DeviceError, WorkloadError

NAME = ["workloads", "resnet18-mini", "--kernels"]


def test_the_kernels_of_a_request_are_listed_longest_first(capsys):
    assert main([*NAME, "--device", "sim:t4", "--batch", "8"]) == 0
    out = capsys.readouterr().out
    assert "SIMULATED" in out
    assert "sim:t4" in out
    assert "convolution" in out
    assert "not measured" in out


def test_a_program_gets_the_same_as_json(capsys):
    assert main([*NAME, "--json", "--software", "tensorrt"]) == 0
    trace = json.loads(capsys.readouterr().out)
    assert (trace["workload"], trace["dtype"], trace["software"]) == ("resnet18-mini", "float16", "tensorrt")
    assert sum(line["count"] for line in trace["lines"]) == trace["kernels"]
    assert sum(line["time_ns"] for line in trace["lines"]) == pytest.approx(trace["device_ns"])
    assert all({"flops", "dram_bytes", "tensor_cores", "waves", "limit"} <= set(line) for line in trace["lines"])


def test_the_size_of_the_request_counts():
    small, large = (list_kernels("bert-base-mini", batch=batch, seq=32) for batch in (1, 64))
    assert small.kernels == large.kernels
    assert large.device_ns > small.device_ns
    assert list_kernels("bert-base-mini", train=True).kernels > 2 * small.kernels


def test_fusing_leaves_fewer_kernels():
    counts = [
        list_kernels("bert-base-mini", software=software).kernels for software in ("eager", "compile", "tensorrt")
    ]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["workloads", "--kernels"], "needs the name"),
        (["workloads", "bert", "--batch", "8"], "requires --kernels"),
        (["workloads", "berd-base", "--kernels"], "bert-base"),
        ([*NAME, "--device", "cpu"], "isn't simulated"),
        ([*NAME, "--device", "sim:a1000"], "a100"),
        ([*NAME, "--dtype", "float7"], "not a number format"),
    ],
)
def test_bad_input_is_one_sentence(options, words, capsys):
    assert main(options) != 0
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error


def test_the_library_gives_the_same_result():
    with pytest.raises(DeviceError, match="isn't simulated"):
        list_kernels("bert-base-mini", device="cuda:0")
    with pytest.raises(WorkloadError, match="not a number format"):
        list_kernels("bert-base-mini", dtype="float7")
