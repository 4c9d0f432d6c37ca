"""Every result as elements: what the terminal, the page and Markdown show is the same."""

import html
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from cotenant.analyse.decision import Answer
from cotenant.analyse.neighbours.totals import Totals
from cotenant.analyse.neighbours.watching import TenantTotals, watched_of
from cotenant.analyse.result import Result, side_by_side
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
from cotenant.reporting.elements.markdown import to_markdown
from cotenant.reporting.elements.terminal import to_terminal
from cotenant.reporting.figures.figure import Figure, Understanding
from cotenant.reporting.results import predicted
from cotenant.reporting.results.decided import choices_table
from cotenant.reporting.results.methods import methods_elements
from cotenant.reporting.results.watched import tenants_table, watched_elements
from cotenant.tenancy.interval import Interval
from cotenant.text import NOTHING
from tests.analyse.decision.truth import Truth
from tests.analyse.decision.ways import choice, way
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
    DataTable(("tenant", "p99 ms"), (("bert", TableCell("3.1", bullet=Bullet(Interval(3.1, 2, 4), 5))),), "A table"),
    DataTable(("tenant", "ms"), groups=(RowGroup("under mps", (("gpt", "8.25"),)),)),
    Drawing(FIGURE, DataTable(("what", "least"), (("curve", "0.125"),))),
    Section("Later", "later", (Sentence("cotenant run quick", command=True),), folded=True),
]


def words(text: str) -> str:
    return " ".join(text.split())


def on_terminal(elements, width=400) -> str:
    console = Console(file=StringIO(), width=width, markup=False, highlight=False)
    for part in to_terminal(elements):
        console.print(part)
    return words(console.file.getvalue())


def on_page(elements) -> str:
    whole = page(elements, title="t", brand="b")
    body = whole[whole.index("<main") : whole.index("</main>")]
    return words(html.unescape(re.sub(r"<[^>]+>", " ", body)))


def in_markdown(elements) -> str:
    return words(re.sub(r"\\(.)", r"\1", to_markdown(elements)))


def watched():
    first, second, _ = play(Script(1, 1.5, minutes=20))
    t_s = np.arange(0.0, 20 * 60, READ_EVERY_S)
    return watched_elements(watched_of([readings("a", first, t_s), readings("b", second, t_s)], device="cpu"))


def test_of_a_quantile_in_the_first_bucket_a_table_shows_the_bound():
    t_s = np.arange(600.0)
    totals = {role: Totals(t_s, t_s * each) for role, each in (("requests", 1), ("latency_s", 0.01))}
    buckets = {"latency": {0.1: 500.0, 0.2: 590.0, 0.5: 600.0}}
    table = tenants_table(watched_of([TenantTotals("a", "histogram", totals, buckets)], device="cpu"))
    shown = dict(zip(table.columns, table.rows[0], strict=True))
    assert (shown["p50 ms"], shown["p95 ms"]) == ("≤ 100", "178")


@pytest.mark.parametrize("elements", [EVERY, pytest.param(None, id="watched")])
@pytest.mark.parametrize("shown", [on_terminal, on_page, in_markdown])
def test_every_renderer_shows_every_text(elements, shown):
    elements = watched() if elements is None else elements
    found = shown(elements)
    assert [text for text in texts(elements) if words(text) not in found] == []


def test_long_names_in_a_plain_table_are_folded_and_not_cut():
    columns = ("tenant", *(f"number {at}" for at in range(9)))
    rows = tuple((f"127.0.0.1:{port}", *["123.4"] * 9) for port in (18201, 18202))
    shown = on_terminal([DataTable(columns, rows, numbers=frozenset(columns[1:]), ruled=False)], width=80)
    assert "…" not in shown
    assert shown.count("123.4") == 18


def test_names_are_text_everywhere():
    elements = [Sentence(HOSTILE), DataTable((HOSTILE,), ((HOSTILE,),)), Sentences((HOSTILE,))]
    whole = page(elements, title="t", brand="b")
    assert "<img" not in whole
    assert "\x1b" not in whole
    assert "\x1b" not in on_terminal(elements)
    assert re.search(r"(?<!\\)<", to_markdown(elements)) is None


def test_a_prediction_beyond_its_limit_is_drawn_as_missed():
    def drawn(upper):
        cell = TableCell("x", bullet=Bullet(Interval(3, 2, upper), 5))
        return page([DataTable(("tenant", "ms"), (("a", cell),))], title="t", brand="b")

    assert 'class="bullet kept"' in drawn(4)
    assert 'class="bullet missed"' in drawn(6)


def test_a_row_too_long_for_a_line_is_cut_and_others_are_not():
    table = DataTable(("mix", "verdict"), (("m" * 90, "share"), ("short", "share")), ruled=False, cut=("mix",))
    console = Console(file=StringIO(), width=80)
    console.print(*to_terminal([table]))
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 3
    assert all("share" in line for line in lines[1:])


def test_served_traffic_has_no_column_of_work():
    served = choice(way("scheduled", None, half=None))
    assert "work" not in choices_table([served]).columns
    both = choices_table([served, choice(way("mps", 1.5))])
    work = both.columns.index("work")
    assert [row[work] for row in both.rows] == [NOTHING, "1.50x"]


def test_methods_are_those_of_the_run():
    manifest = {
        "run": "r", "study_name": "pairs", "seed": 7, "device": "sim:t4", "simulated": True, "why": "precise enough",
        "device_description": {"title": "NVIDIA T4"}, "reached": {"blocks": 12}, "windows": {"window_s": 2.0},
        "sessions": [{"packages": {"cotenant": "0.0.9"}}], "sha256": "abc",
    }  # fmt: skip
    run = Truth(blocks=12, requests=20)
    run.trials("alone", {"a": (10, None)})
    run.trials("mps[60, 40]", {"a": (12, None), "b": (9, None)}, "unstable", failed=("quiet_machine",))
    result = Result((), (manifest,), run.summary(), {}, (), (), (), ())
    (paragraph, cited) = methods_elements(result)
    for part in (
        "We simulated 1 mix under mps, and every tenant alone, on NVIDIA T4 (sim:t4) with cotenant 0.0.9",
        "(study pairs, seed 7). Each of 12 blocks",
        "in windows of 2 s",
        "passed every check; 12 did not, mostly because other processes used the device.",
        "nothing was measured. The run is r, SHA-256 abc.",
    ):
        assert part in paragraph.text
    assert "version = {0.0.9}" in cited.text


def test_devices_come_in_the_order_given():
    choices = []
    for device in ("sim:a", "sim:b", "sim:c"):
        run = Truth(requests=20)
        run.solos(a=(10, None), b=(9, None))
        run.trials("processes", {"a": (12, None), "b": (11, None)})
        run.seen = [replace(seen, device=device) for seen in run.seen]
        choices += run.answer().choices
    given = [{"device": device} for device in ("sim:c", "sim:a", "sim:b")]
    assert side_by_side(Answer((), tuple(choices)), given).devices == ("sim:c", "sim:a", "sim:b")


@pytest.mark.parametrize(("mixes", "asks"), [("[pairs]", True), ("[solo]", False)])
def test_a_run_that_was_interrupted_before_any_mix_answers_what_was_asked(mixes, asks):
    run = Truth(blocks=2, requests=20)
    run.solos(a=(10, None), b=(9, None))
    manifest = {"run": "r", "state": "interrupted", "study": f"name: mine\nmixes: {mixes}\n"}
    result = Result((Path("runs/mine/r"),), (manifest,), run.summary(), {}, (), (), (), ())
    asked = "Can't tell yet whether these tenants may share: the run was interrupted after 4 trials of tenants alone"
    assert (asked in result.opening[0]) == asks
    assert ("cotenant run --resume runs/mine/r" in result.opening[0]) == asks


@pytest.mark.parametrize(("ways", "folded"), [("abc", 0), ("abcde", 2)])
def test_maps_beyond_the_third_are_folded(monkeypatch, ways, folded):
    monkeypatch.setattr(predicted, "_pairs", lambda _, sharing, *, hatch: DataTable(("a",), (("b",),), sharing))
    monkeypatch.setattr(predicted, "_groups", lambda *_, hatch: None)
    mixes = [SimpleNamespace(sharing=way, tenants=()) for way in ways]
    elements = predicted.map_elements(SimpleNamespace(mixes=mixes, device="cpu"))
    assert [each.title for each in elements if isinstance(each, DataTable)] == list("abc")
    sections = [each for each in elements if isinstance(each, Section)]
    assert sum(len(each.elements) for each in sections) == folded
    assert all(each.folded for each in sections)


@pytest.mark.parametrize(
    ("memory", "text"),
    [
        (None, "a + b: a can't run under mps: more requests arrive than end"),
        (
            18 << 30,
            "a + b: a can't run under mps: more requests arrive than end, or 18.0 GiB of memory are more than there is",
        ),
    ],
)
def test_a_mix_that_cannot_run_gets_words_instead_of_dashes(memory, text):
    tenants = [
        SimpleNamespace(tenant=name, slowdown=Interval(est, None, None)) for name, est in (("a", np.nan), ("b", 1.1))
    ]
    mix = SimpleNamespace(
        mix=("a", "b"), label="a + b", sharing="mps", tenants=tenants, memory_bytes=memory, worst=np.nan
    )
    assert predicted.answer(SimpleNamespace(mixes=[mix], device="sim:t4")) == text
