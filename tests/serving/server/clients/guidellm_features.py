"""`guidellm_features.py URL TOKENIZER`: a benchmark of GuideLLM with four requests of eight tokens."""

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from features import Features, expect

url, tokenizer = sys.argv[1:3]
feature = Features(f"guidellm {version('guidellm')}")


@feature("a benchmark with streamed chats")
def _():
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "found.json"
        options = {
            "backend": f"kind=openai_http,target={url},model=gpt",
            "profile": "kind=synchronous",
            "constraint": "kind=max_requests,count=4",
            "tokenizer": f"kind=hf_auto,model={tokenizer}",
            "data": "kind=synthetic_text,prompt_tokens=8,output_tokens=8",
            "output": f"kind=json,path={place}",
        }
        given = [part for name, value in options.items() for part in (f"--{name}", value)]
        command = [str(Path(sys.executable).with_name("guidellm")), "run", "--disable-console-interactive", *given]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        expect(done.returncode == 0, done.stderr[-300:] + done.stdout[-300:])
        made = json.loads(place.read_text())["benchmarks"][0]["requests"]
        expect((len(made["successful"]), len(made["errored"])) == (4, 0), made)


feature.report()
