"""The glossary's words are those of the code, and the words of the first decision are in it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/concepts/glossary.md").read_text(encoding="utf-8")
WORDS = re.findall(r"^\| \*\*(.+?)\*\*", PAGE, re.MULTILINE)
CODE = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")).lower()
NOUNS = (
    "workload", "request", "at_once", "load", "tenant", "tenants file", "software", "engine", "mix", "device",
    "sharing", "trial", "block", "study", "run", "basis", "plan", "promise", "verdict", "slowdown",
)  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_the_glossary_is_used_in_the_code(word):
    plain = re.sub(r"\s*\(.*?\)", "", word).lower()
    assert any(re.search(rf"\b{re.escape(part)}s?\b", CODE) for part in (plain, plain.replace(" ", "_")))


def test_the_nouns_of_the_design_are_explained():
    assert [noun for noun in NOUNS if noun not in WORDS] == []


def test_the_words_of_a_first_decision_are_at_most_eight_and_in_the_glossary():
    sentence = (ROOT / "docs/index.md").read_text().partition("Eight words")[2].partition("The\n")[0]
    named = re.findall(r"\*\*([\w ]+)\*\*", sentence)
    assert len(named) == 8
    explained = {word.partition(" (")[0] for word in WORDS}
    assert set(named) <= explained
