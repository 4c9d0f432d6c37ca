"""Plans with names that are commands: exported for a tool, and every script that was written is run.

Commands are made of what the shell has built in: they work without a PATH, and leave a file where one was executed.
"""

import json
import random
import subprocess
from pathlib import Path

from tests.support import pace

PLAN = """plan: 2
cost_per_h: 2.7447
bound: 2.7447
devices:
- name: sim:a100-sxm4-40gb#0
  kind: sim:a100-sxm4-40gb
  sharing: mps
  price_per_h: 2.7447
  basis: simulated (event engine)
  tenants:
    chat:
      tenant: chat
      rate_rps: 2.0
      together: 1
      runs: {workload: gpt2, seq: 64, mode: generate, tokens: 16}
      memory_bytes: 737931955
      expected:
        ttft p99: {limit_ms: 2000.0, lower_ms: 241.962, estimate_ms: 432.912, upper_ms: 907.039}
        tpot p99: {limit_ms: 200.0, lower_ms: 4.6088, estimate_ms: 6.71469, upper_ms: 10.4884}
    embed:
      tenant: embed
      rate_rps: 5.0
      together: 1
      runs: {workload: bert-base, seq: 32}
      memory_bytes: 702348480
      slowdown: 1.01394
      expected:
        p99: {limit_ms: 500.0, lower_ms: 4.04407, estimate_ms: 10.1721, upper_ms: 25.0151}
"""
GENERATING = PLAN[: PLAN.index("    embed:")]
"""A plan that servers of language models can express too."""
TURNS = PLAN.replace("sharing: mps", "sharing: processes")
"""A plan that tools without a way to share can express too."""
TOOLS = (
    "cotenant", "vllm", "triton", "compose", "systemd", "llama-swap", "shell", "kubernetes", "kubernetes-device-plugin",
    "kubernetes-hami", "kubernetes-kai", "ray", "vllm,triton", "compose,vllm",
)  # fmt: skip
MARK = "executed"
_COMMANDS = (
    "$(>MARK)", "`>MARK`", "a;>MARK", "a\n>MARK\n", "';>MARK;'", '";>MARK;"', "a'$(>MARK)'", "a\\\n>MARK", "a && >MARK",
    "a|>MARK", "\nEOF\n>MARK\n", "${x:-$(>MARK)}", "a\r>MARK", "--help $(>MARK)", "a\u2028>MARK", "<(>MARK)",
    "#\n>MARK",
)  # fmt: skip
_NAMED = ("chat", "embed", "gpt2", "bert-base", "sim:a100-sxm4-40gb#0", "mps", "simulated (event engine)")


def hostile(rng: random.Random, mark: Path) -> str:
    """A plan in which one or two names are commands."""
    text = rng.choice((PLAN, GENERATING, TURNS))
    for name in rng.sample([name for name in _NAMED if f" {name}" in text], rng.choice((1, 1, 2))):
        command = json.dumps(rng.choice(_COMMANDS).replace("MARK", str(mark)))
        text = text.replace(f": {name}\n", f": {command}\n").replace(f"    {name}:\n", f"    {command}:\n")
        text = text.replace(f"workload: {name},", f"workload: {command},")
    return text


def executed(folder: Path, mark: Path) -> bool:
    """Run every script below a folder, without any command that isn't built in; whether a name was one."""
    for script in sorted(folder.rglob("*.sh")):
        for verb in ("up", "down", "status"):
            subprocess.run(
                ["/bin/bash", str(script), verb], cwd=script.parent, env={"PATH": "/nowhere", "HOME": str(folder)},
                stdin=subprocess.DEVNULL, capture_output=True, timeout=pace.seconds(60), check=False,
            )  # fmt: skip
    return mark.exists()
