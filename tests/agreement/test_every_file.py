"""Every tenants file of the documentation goes through every verb.

What pages show for a real device is asked about a simulated GPU: the same functions, without what happens to be
installed here.
"""

import re
import textwrap
from pathlib import Path

import pytest

from cotenant.plain_yaml import load
from tests.agreement.answers import Effort, asked

pytestmark = pytest.mark.no_cover
"""Whole verbs, whose lines the tests of their parts reach: tracing them takes half as long again."""
ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "docs/screenshots.py"])
VERBS = ("run --dry-run", "predict", "plan", "plan --check", "serve")
ELSEWHERE = "sim:a100-sxm4-80gb"
LONG = ("five-models.md-1", "plan.md-1", "rag.md-1", "screenshots.py-1")
"""Services with many requests: up to 20 CPU seconds, and as many for `serve`, which orders every one."""

BLOCK = re.compile(r"^ *```yaml\n(.*?)^ *```", flags=re.DOTALL | re.MULTILINE)
IN_HELP = re.compile(r"^( *)tenants\.yaml: +tenants:\n((?:\1 {8,}.*\n)+)", flags=re.MULTILINE)
IN_CODE = re.compile(r'= """\\\n(tenants:.*?)"""', flags=re.DOTALL)

NEEDS = re.compile(
    r"needs? |has no |is only |can't be simulated|can't run on a simulated device|isn't a model"
    r"|no mix of several tenants|can't be shared by|there is no file `|training step|add mode: generate|one prompt"
    r"|has only jobs|can't meet its objectives|can't serve|replicas"
)
"""Of a sentence: what the verb needs and the file, or its device, lacks."""


def tenants_files() -> list:
    """Each with the page that shows it and its number there."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = [textwrap.dedent(block) for block in BLOCK.findall(text)]
        blocks += ["tenants:\n" + textwrap.indent(textwrap.dedent(block), "  ") for _, block in IN_HELP.findall(text)]
        blocks += IN_CODE.findall(text)
        named = [block for block in blocks if re.search(r"^tenants:", block, flags=re.MULTILINE)]
        for number, block in enumerate(named, start=1):
            name = f"{page.relative_to(ROOT)}-{number}"
            if not name.endswith(LONG):
                found.append(pytest.param(block, VERBS, id=name))
                continue
            for what, verbs in (("all but serve", VERBS[:-1]), ("serve", VERBS[-1:])):
                found.append(pytest.param(block, verbs, id=f"{name}-{what}", marks=pytest.mark.slow))
    return found


FILES = tenants_files()


def test_the_files_are_found():
    """In guides, in the reference, in the help of commands, and in the script of the screenshots."""
    pages = {re.split(r"-\d", file.id)[0] for file in FILES}
    assert {
        "docs/guide/plan.md",
        "docs/reference/cli.md",
        "docs/reference/workloads.md",
        "docs/screenshots.py",
    } <= pages


@pytest.mark.parametrize(("text", "verbs"), FILES)
def test_every_verb_answers_or_says_what_it_needs(text, verbs, tmp_path):
    """No internal error, no contradiction; who refuses says in one line for each problem what is lacking."""
    path = tmp_path / "tenants.yaml"
    data = load(text)
    if not str(data.get("device", "")).startswith("sim:"):
        text = f"device: {ELSEWHERE}\n" + re.sub(r"^device:.*\n", "", text, flags=re.MULTILINE)
    path.write_text(text, encoding="utf-8")
    (tmp_path / "arrivals.csv").write_text("0\n1\n2\n")
    said = asked(path, verbs, Effort(planning_s=2.0, simulated_s=2.0))
    assert said.contradictions() == []
    sentences = [(verb, line) for verb, lines in said.refusals.items() for line in lines]
    assert [(verb, line) for verb, line in sentences if not NEEDS.search(line) or "\n" in line] == []
