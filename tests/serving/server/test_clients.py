"""Third-party clients: tritonclient, openai, curl, schemathesis, aiperf."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving.server.test_compatibility import compare
from tests.support import pace
from tests.support.elsewhere import interpreter

pytestmark = [pytest.mark.slow, pytest.mark.long]
HERE = Path(__file__).parent / "clients"


def speak(script, module, *arguments):
    """Run a client; returns its output as data."""
    command = [interpreter(module), str(HERE / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=pace.seconds(200), check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_tritonclient_sends_and_gets_binary_tensors(server):
    report = speak("triton_client.py", "tritonclient", server.url)
    assert (report["live"], report["ready"], report["same"]) == (True, True, True)
    assert (report["id"], report["shape"]) == ("7", [2, 100])
    assert report["inputs"] == [{"name": "pixel_values", "datatype": "FP32", "shape": [-1, 3, 64, 64]}]
    assert report["index"] == ["bert", "conv", "gpt"]
    assert report["served"] >= 2
    assert "of shape [-1, 3, 64, 64], not [1, 3, 8, 8]" in report["refused"]


def test_tritonclient_sends_and_gets_raw_tensors_over_grpc(server):
    report = speak("triton_grpc_client.py", "tritonclient", server.grpc)
    assert (report["live"], report["ready"], report["model_ready"], report["name"]) == (True, True, True, "cotenant")
    assert report["inputs"] == [{"name": "pixel_values", "datatype": "FP32", "shape": ["-1", "3", "64", "64"]}]
    assert (report["id"], report["shape"]) == ("7", [2, 100])
    assert report["refused"]["shape"][0] == "StatusCode.INVALID_ARGUMENT"
    assert "of shape [-1, 3, 64, 64], not [1, 3, 8, 8]" in report["refused"]["shape"][1]
    assert report["refused"]["model"] == ["StatusCode.NOT_FOUND", "There is no model 'nothing'."]


def test_schemathesis_finds_no_deviation_from_the_description():
    python = interpreter("schemathesis")
    with subprocess.Popen(
        [sys.executable, "-m", "tests.serving.server.fronted"], stdout=subprocess.PIPE, text=True, cwd=HERE.parents[3]
    ) as fronted:
        try:
            url = fronted.stdout.readline().strip()
            command = [python, str(HERE / "schemathesis_client.py"), url, "10"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=pace.seconds(250), check=False)
        finally:
            fronted.terminate()
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    selected = int(re.search(r"(\d+) selected", done.stdout)[1])
    assert selected > 30
    assert f"{selected} passed" in done.stdout
    version = re.search(r"Schemathesis v(\S+)", done.stdout)[1]
    compare(
        {f"schemathesis {version}": {"random requests from the OpenAPI description get described answers": "works"}}
    )


def test_openai_reads_answers_streams_and_errors(server):
    report = speak("openai_client.py", "openai", server.url)
    assert report["models"] == ["bert", "conv", "gpt"]
    assert (report["same"], report["reason"], report["usage"], report["stream_usage"]) == (True, "length", 6, 6)
    assert (report["completion"], report["vectors"]) == (3, [128, 128])
    assert "There is no model 'nothing'" in report["refused"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl isn't installed")
def test_curl_gets_a_stream_line_by_line(server):
    body = json.dumps({"model": "gpt", "prompt": "a", "max_tokens": 4, "stream": True})
    done = subprocess.run(
        ["curl", "-sN", "--max-time", "100", f"{server.url}/v1/completions", "-d", body],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
