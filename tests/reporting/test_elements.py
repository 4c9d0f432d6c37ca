"""Every result as elements: what the terminal, the page and Markdown show is the same."""

import html
import re
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from cotenant.analyse.neighbours.watching import watched_of
from cotenant.reporting.elements import (
    Bullet,
    DataTable,
    Drawing,
    Facts,
    Remark,
    RowGroup,
    Section,
    Sentence,
    Sentences,
    TableCell,
    texts,
)
from cotenant.reporting.elements.html import page
from cotenant.reporting.elements.markdown import markdown
from cotenant.reporting.elements.terminal import terminal
from cotenant.reporting.figures.figure import Figure, Understanding
from cotenant.reporting.results.watched import watched_elements
from validation.scripted_neighbours import Script, play
from validation.watching import READ_EVERY_S, readings

HOSTILE = "<img src=x>\x1b[2J|`a`"
FIGURE = Figure("f", "A figure", "", {"config": {}}, ({"x": 1},), Understanding("it", "there", "not"))
EVERY = [
    Section(
        "First",
        "first",
        (
            Sentence("The answer.", "good"),
            Sentence("More of it."),
            Remark("A remark."),
            Sentences(("one line", "another"), "A title"),
            Facts((("seed", "7"),), simulated=True),
        ),
    ),
    DataTable(("tenant", "p99 ms"), (("bert", TableCell("3.1", bullet=Bullet(3.1, 2, 4, 5))),), "A table"),
    DataTable(("tenant", "ms"), groups=(RowGroup("under mps", (("gpt", "8.25"),)),)),
    Drawing(FIGURE, DataTable(("what", "least"), (("curve", "0.125"),))),
    Section("Later", "later", (Sentence("cotenant run quick", command=True),), folded=True),
]


def words(text: str) -> str:
    return " ".join(text.split())


def on_terminal(elements, width=400) -> str:
    console = Console(file=StringIO(), width=width, markup=False, highlight=False)
    for part in terminal(elements):
        console.print(part)
    return words(console.file.getvalue())


def on_page(elements) -> str:
    whole = page(elements, title="t", brand="b")
    body = whole[whole.index("<main") : whole.index("</main>")]
    return words(html.unescape(re.sub(r"<[^>]+>", " ", body)))


def in_markdown(elements) -> str:
    return words(re.sub(r"\\(.)", r"\1", markdown(elements)))


def watched():
    first, second, _ = play(Script(1, 1.5, minutes=20))
    t_s = np.arange(0.0, 20 * 60, READ_EVERY_S)
    return watched_elements(watched_of([readings("a", first, t_s), readings("b", second, t_s)], device="cpu"))


@pytest.mark.parametrize("elements", [EVERY, pytest.param(None, id="watched")])
@pytest.mark.parametrize("shown", [on_terminal, on_page, in_markdown])
def test_every_renderer_shows_every_text(elements, shown):
    elements = watched() if elements is None else elements
    found = shown(elements)
    assert [text for text in texts(elements) if words(text) not in found] == []


def test_names_are_text_everywhere():
    elements = [Sentence(HOSTILE), DataTable((HOSTILE,), ((HOSTILE,),)), Sentences((HOSTILE,))]
    whole = page(elements, title="t", brand="b")
    assert "<img" not in whole
    assert "\x1b" not in whole
    assert "\x1b" not in on_terminal(elements)
    assert re.search(r"(?<!\\)<", markdown(elements)) is None


def test_a_prediction_beyond_its_limit_is_drawn_as_missed():
    def drawn(upper):
        cell = TableCell("x", bullet=Bullet(3, 2, upper, 5))
        return page([DataTable(("tenant", "ms"), (("a", cell),))], title="t", brand="b")

    assert 'class="bullet kept"' in drawn(4)
    assert 'class="bullet missed"' in drawn(6)


def test_a_row_too_long_for_a_line_is_cut_and_others_are_not():
    table = DataTable(("mix", "verdict"), (("m" * 90, "share"), ("short", "share")), ruled=False, cut=("mix",))
    console = Console(file=StringIO(), width=80)
    console.print(*terminal([table]))
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 3
    assert all("share" in line for line in lines[1:])
