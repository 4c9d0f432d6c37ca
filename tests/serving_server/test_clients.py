"""Clients that were written elsewhere: tritonclient, openai, curl."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "clients"


def speak(script, module, url):
    """Run a client with an interpreter that has its module: this one, or the one named by COTENANT_CLIENTS."""
    python = os.environ.get("COTENANT_CLIENTS")
    if python is None:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} isn't installed; name an interpreter that has it in COTENANT_CLIENTS")
        python = sys.executable
    done = subprocess.run([python, str(HERE / script), url], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_tritonclient_sends_and_gets_binary_tensors(server):
    told = speak("triton_client.py", "tritonclient", server.url)
    assert (told["live"], told["ready"], told["same"], told["id"], told["shape"]) == (True, True, True, "7", [2, 100])
    assert told["inputs"] == [{"name": "pixel_values", "datatype": "FP32", "shape": [-1, 3, 64, 64]}]
    assert told["index"] == ["bert", "conv", "gpt"]
    assert told["served"] >= 2
    assert "of shape [-1, 3, 64, 64], not [1, 3, 8, 8]" in told["refused"]


@pytest.mark.slow
def test_openai_reads_answers_streams_and_errors(server):
    told = speak("openai_client.py", "openai", server.url)
    assert told["models"] == ["bert", "conv", "gpt"]
    assert (told["same"], told["reason"], told["usage"], told["stream_usage"]) == (True, "length", 6, 6)
    assert (told["completion"], told["vectors"]) == (3, [128, 128])
    assert "There is no model 'nothing'" in told["refused"]


@pytest.mark.slow
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
