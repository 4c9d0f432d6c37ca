"""Pages quote what the commands print: the blocks are run again and compared. And guides stay short."""

import json
import re
from pathlib import Path

import pytest

from tests.support.scripts import loaded

ROOT = Path(__file__).parents[2]
REGENERATE = loaded(ROOT / "docs/regenerate.py")
GUIDES = sorted((ROOT / "docs/guide").glob("*.md"))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", REGENERATE.pages(), ids=lambda page: page.stem)
def test_a_page_quotes_what_its_commands_print(page, tmp_path):
    blocks = REGENERATE.follow(page.read_text(encoding="utf-8"), tmp_path)
    problems = [line for body, ran, share in blocks for line in REGENERATE.differences(body, ran, share)]
    assert problems == [], f"python docs/regenerate.py {page.relative_to(ROOT)}"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", REGENERATE.notebooks(), ids=lambda path: path.stem)
def test_a_notebook_shows_what_its_cells_show(path, tmp_path):
    problems = REGENERATE.cell_differences(json.loads(path.read_text(encoding="utf-8")), tmp_path)
    assert problems == [], f"python docs/regenerate.py {path.relative_to(ROOT)}"


def test_cells_share_their_names_and_the_last_value_is_shown(tmp_path):
    cells = [{"cell_type": "code", "source": [source], "outputs": []} for source in ("a = 2\nprint(a)", "a + 1", "a;")]
    shown = REGENERATE.carry_out_cells({"cells": [{"cell_type": "markdown"}, *cells]}, tmp_path)
    assert [REGENERATE.said_by(outputs) for outputs in shown] == [["2"], ["3"], []]


PAGE = """# A page

```yaml
# mine.yaml
tenants: {}
```

<!-- output, within 10 % -->
```console
$ cat mine.yaml
tenants: {}
$ echo 'took 101 ms \\
  of 3'
took 96.0 ms of 3
```
<!-- end of output -->
"""


def test_commands_run_beside_the_files_of_the_page_and_numbers_may_differ_a_little(tmp_path):
    ((body, ran, share),) = REGENERATE.follow(PAGE, tmp_path)
    assert [one.code for one in ran] == [0, 0]
    assert share == 0.1
    assert REGENERATE.differences(body, ran, share) == []
    assert REGENERATE.differences(body, ran, 0.01) == ["'took 96.0 ms of 3' is now 'took 101 ms  of 3'"]


def test_a_page_is_written_anew_without_touching_the_rest(tmp_path):
    page = PAGE.replace("tenants: {}\n$", "old\nolder\n...\n$")
    fresh = REGENERATE.renewed(page, tmp_path)
    assert "$ cat mine.yaml\ntenants: {}\n...\n$ echo" in fresh
    assert fresh.startswith("# A page\n\n```yaml")
    assert fresh.endswith("<!-- end of output -->\n")


def test_other_words_and_a_failing_command_are_differences(tmp_path):
    page = PAGE.replace("cat mine.yaml", "cat yours.yaml")
    ((body, ran, share),) = REGENERATE.follow(page, tmp_path)
    assert any("yours.yaml" in line for line in REGENERATE.differences(body, ran, share))


def test_run_folders_are_called_run():
    text = "again: cotenant show runs/five/20261117T170307Z-9d9d03cb"
    assert REGENERATE._neutral(text) == "again: cotenant show RUN"


def test_guides_are_at_most_fifteen_thousand_words():
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in GUIDES) <= 15_000


def test_the_tutorials_come_first_in_the_order_of_the_loop():
    navigation = (ROOT / "zensical.toml").read_text()
    listed = re.findall(r'"guide/([\w-]+)\.md"', navigation)
    assert listed[:5] == ["first-run", "predict", "plan", "serve", "loop"]
