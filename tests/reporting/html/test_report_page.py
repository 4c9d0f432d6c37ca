"""The page: self-contained, with all text escaped, and an answer even if no trial is valid."""

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from cotenant.api.report import report
from cotenant.cli.main import cli, main
from cotenant.errors import CotenantError, RunFolderError
from cotenant.reporting.html.assets import VENDORED, columnar, embedded_json, script_hash
from tests.reporting.html.report_runs import HOSTILE, write_run

VENDOR = Path(__file__).parents[3] / "src/cotenant/reporting/html/vendor"
DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


class Seen(HTMLParser):
    """Elements, attributes and text outside scripts."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text, self.scripts, self.inside = [], [], [], [], None

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        (self.scripts if self.inside == "script" else self.text).append(data)


def parsed(text):
    seen = Seen()
    seen.feed(text)
    return seen


def page_of(*runs, **options):
    return report(runs, **options).html.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return page_of(write_run(tmp_path_factory.mktemp("runs") / "run"))


def test_the_page_is_one_file_of_a_megabyte_or_two(text):
    assert len(text.encode()) < 2_000_000


def test_without_mixes_the_main_table_is_in_the_answer_and_stages_come_before_latencies(tmp_path):
    text = page_of(write_run(tmp_path / "run", sharings=()))
    answer, _, rest = text.partition('<section id="stages">')
    assert '<td data-label="where the time goes">' in answer
    assert '<section id="latency">' in rest


def test_nothing_is_loaded_from_anywhere(text):
    seen = parsed(text)
    assert not {"link", "iframe", "object", "embed", "base", "img", "form"} & set(seen.tags)
    for tag, name, value in seen.attributes:
        assert name not in {"src", "srcset", "action", "data", "poster"}, (tag, name, value)
        if name == "href":
            assert value.startswith("#")
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL).group(1)
    assert "url(" not in style
    assert "@import" not in style


def test_only_our_own_scripts_may_run(text):
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1))
    assert "default-src 'none'" in policy
    assert "script-src" in policy
    assert "unsafe-eval" not in policy
    assert re.search(r"script-src[^;]*unsafe-inline", policy) is None
    ran = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(ran) == len(VENDORED) + 1
    assert all(script_hash(script) in policy for script in ran)
    assert not any(name.startswith("on") for _, name, _ in parsed(text).attributes)


def test_the_answer_comes_first(text):
    headings = re.findall(r"<h2>([^$<]*)</h2>", text)
    assert headings[:2] == ["The answer", "Slowdown of every tenant"]
    assert headings[-2:] == ["Checks and verdicts", "Environment and provenance"]
    assert '<p class="advice good">Share decoder + encoder by processes: 1.3' in text
    first = text[text.index("<h2>The answer") : text.index('<table class="matrix"')]
    assert "Share decoder + encoder by processes" in first, "the answer stands before the matrix"


def test_every_figure_has_an_explanation_and_data_to_download(text):
    data = json.loads(DATA.search(text).group(1))
    seen = parsed(text)
    drawn = {value for tag, name, value in seen.attributes if tag == "div" and name == "data-figure"}
    offered = {value for tag, name, value in seen.attributes if tag == "button" and name == "data-figure"}
    assert {"latency", "stp", "throughput", "fairness", "stages", "sensors"} <= drawn
    assert offered == drawn | {"slowdown"} == set(data["figures"])
    assert all(figure["rows"] for figure in data["figures"].values())
    assert text.count("Understanding this") >= 8


def test_every_square_leads_to_the_detail_of_its_mix(text):
    seen = parsed(text)
    chosen = {value for tag, name, value in seen.attributes if tag == "button" and name == "data-mix"}
    ids = [value for _, name, value in seen.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert len(chosen) == 2
    assert chosen <= set(ids)
    assert json.loads(DATA.search(text).group(1))["chosen"] in chosen
    assert chosen == set(json.loads(DATA.search(text).group(1))["mixes"])


def test_a_measured_run_is_not_called_simulated_and_a_simulated_one_is(text, tmp_path):
    assert "SIMULATED" not in text
    simulated = write_run(tmp_path / "run", simulated=True, blocks=2)
    shown = page_of(simulated, markdown=tmp_path / "run.md")
    assert "<b>SIMULATED</b>" in shown[: shown.index("<h2>")]
    assert "**SIMULATED**" in (tmp_path / "run.md").read_text(encoding="utf-8")


def test_a_simulated_run_states_its_validated_error_on_the_page_and_in_markdown(text, tmp_path):
    assert "Error of such figures" not in text
    errors = {"mps": ["error of slowdown: 9 % (<b>table</b>, 7 held-out rows)"], "power": ["error of power: 5 %"]}
    run = write_run(tmp_path / "run", simulated=True, blocks=2, manifest={"simulation": {"error_by_class": errors}})
    shown = page_of(run, markdown=tmp_path / "run.md")
    head = shown[: shown.index("<h2>")]
    assert "<b>mps</b>: error of slowdown: 9 % (&lt;b&gt;table&lt;/b&gt;, 7 held-out rows)" in head
    assert "<b>power</b>: error of power: 5 %" in head
    assert "- error, mps: error of slowdown: 9 %" in (tmp_path / "run.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    run = write_run(
        folder / "run",
        tenants=(HOSTILE, "{{ 7 * 7 }}"),
        blocks=2,
        verdict="unstable",
        failed=[HOSTILE],
        reasons=[HOSTILE],
        manifest={
            "study_name": HOSTILE,
            "study": HOSTILE,
            "device": HOSTILE,
            "why": HOSTILE,
            "left_out": [HOSTILE],
            "device_description": {HOSTILE: HOSTILE, "model": HOSTILE},
            "sensors": [dict.fromkeys(("name", "unit", "source", "period_s", "quality"), HOSTILE)],
            "sessions": [{HOSTILE: [HOSTILE]}],
        },
    )
    return page_of(run, markdown=folder / "run.md"), (folder / "run.md").read_text(encoding="utf-8")


def test_no_name_becomes_markup(hostile):
    page, _ = hostile
    seen = parsed(page)
    assert "img" not in seen.tags
    assert seen.tags.count("script") == len(VENDORED) + 2
    assert not any("hacked" in script for script in seen.scripts if "vega" not in script and not script.startswith("{"))
    ours = page[: page.index("<script>")]
    assert "<img" not in ours
    assert "\u2028" not in ours
    assert "&lt;img" in page
    assert "{{ 7 * 7 }}" in page


def test_no_name_becomes_markdown(hostile):
    _, markdown = hostile
    assert re.search(r"(?<!\\)<", markdown) is None
    assert "\\<img" in markdown
    tables = [part.splitlines() for part in markdown.split("\n\n") if part.startswith("|")]
    assert len(tables) >= 3
    assert all(len({len(re.findall(r"(?<!\\)\|", row)) for row in table}) == 1 for table in tables)


def test_embedded_json_cannot_end_its_element_and_is_unchanged():
    data = {"a": HOSTILE, "b": ["\u2029", 1.5, None, float("nan")]}
    text = embedded_json(data)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"a": HOSTILE, "b": ["\u2029", 1.5, None, None]}


def test_lone_surrogates_do_not_stop_a_report():
    assert json.loads(embedded_json({"a": "\ud800"})) == {"a": "\ud800"}


def test_columns_are_named_once():
    assert columnar([{"a": 1, "b": 0.123456789}, {"b": None, "c": "x"}]) == {
        "columns": ["a", "b", "c"],
        "words": {"c": ["x"]},
        "rows": [[1, 0.1234568, None], [None, None, 0]],
    }


def test_each_text_of_a_column_is_written_once():
    table = columnar([{"a": "long name", "b": 1}, {"a": "other", "b": "mixed"}, {"a": "long name", "b": None}])
    assert table["words"] == {"a": ["long name", "other"]}
    assert table["rows"] == [[0, 1], [1, "mixed"], [0, None]]


def test_a_run_without_a_valid_trial_says_why(tmp_path):
    run = write_run(
        tmp_path / "run", verdict="invalid", failed=["tenants_alive"], reasons=["decoder died: out of memory"], blocks=1
    )
    page = page_of(run, markdown=tmp_path / "run.md")
    top = page[page.index("<h2>The answer") : page.index('<div id="detail"')]
    assert "No trial is valid" in top
    assert "decoder died: out of memory" in top
    assert "<h2>Slowdown of every tenant" in page
    markdown = (tmp_path / "run.md").read_text(encoding="utf-8")
    assert "decoder died: out of memory" in markdown


def test_unstable_trials_alone_give_no_advice(tmp_path, text):
    shaky = page_of(write_run(tmp_path / "run", verdict="unstable", failed=["quiet_machine"], reasons=["busy"]))
    top = shaky[shaky.index("<h2>The answer") : shaky.index('<div id="detail"')]
    assert "None of 12 trials is valid, most often because other processes used the device (12 trials)." in top
    assert "tell yet about decoder + encoder: no trial of processes passed every check" in top
    assert "Share decoder + encoder" not in top
    assert "The results below" not in text


def test_a_run_without_any_trial_says_so(tmp_path):
    run = write_run(tmp_path / "run", blocks=0, manifest={"state": "running"})
    page = page_of(run, markdown=tmp_path / "run.md")
    assert "have no trials yet" in page
    assert "State of the run: running." in page
    assert "no trials yet" in (tmp_path / "run.md").read_text(encoding="utf-8")


def test_tenants_that_only_ran_alone_make_a_report(tmp_path):
    page = page_of(write_run(tmp_path / "run", sharings=()))
    assert "Most of the time goes to" in page, "nothing was to be decided: where the time goes comes first"
    assert "<h2>Slowdown" not in page, "sections without content are hidden"
    assert 'href="#slowdown"' not in page
    assert "Omitted from this page, and why" in page
    assert '<div class="drawing" data-figure="latency"' in page


def test_a_manifest_of_odd_types_makes_a_report(tmp_path):
    odd = {"device_description": {"model": [3]}, "study": {"name": "x"}, "instrument": {"a": {"b": None}}}
    assert "The answer" in page_of(write_run(tmp_path / "run", blocks=1, manifest=odd))


@pytest.mark.parametrize(("count", "folded"), [(2, False), (3, True)])
def test_figures_of_many_runs_are_folded(tmp_path, count, folded):
    runs = [write_run(tmp_path / f"run{number}", blocks=1) for number in range(count)]
    page = page_of(*runs, out=tmp_path / "all.html")
    latency = page.partition('<section id="latency"')[2].partition("</section>")[0]
    assert latency
    assert ("Every mix and way to share in one figure" in latency) == folded


def test_several_runs_stand_beside_each_other(tmp_path):
    runs = [write_run(tmp_path / name, blocks=2) for name in ("one", "two")]
    page = page_of(*runs, out=tmp_path / "both.html")
    assert page.count('<b class="letter">A</b>') >= 3
    assert page.count('<table class="heat">') == 2
    assert (tmp_path / "both.html").exists()


def test_the_page_goes_into_the_run_s_folder_and_its_path_is_printed(tmp_path):
    run = write_run(tmp_path / "run", blocks=1)
    result = CliRunner().invoke(cli, ["report", str(run), "--markdown", str(tmp_path / "deep/run.md")])
    assert result.exit_code == 0
    assert result.output.split() == [str(run / "report.html"), str(tmp_path / "deep/run.md")]
    assert [path.name for path in run.iterdir() if "report" in path.name] == ["report.html"]
    again = CliRunner().invoke(cli, ["report", str(run), "--json"])
    assert json.loads(again.output) == {"html": str(run / "report.html"), "markdown": None, "figures": []}


def test_foreign_folders_and_unwritable_paths_are_sentences(tmp_path, capsys):
    with pytest.raises(RunFolderError, match="not a run folder"):
        report([tmp_path])
    run = write_run(tmp_path / "run", blocks=1)
    (tmp_path / "file").write_text("")
    assert main(["report", str(run), "--out", str(tmp_path / "file/report.html")]) == 1
    assert f"report.html can't be written: {tmp_path / 'file'} is a file, not a folder." in capsys.readouterr().err


def test_figures_as_files(tmp_path):
    pytest.importorskip("vl_convert", reason="vl-convert is not installed")
    run = write_run(tmp_path / "run", tenants=(HOSTILE, "b"), blocks=2)
    files = report([run], figures=tmp_path / "figures").figures
    assert {"slowdown.svg", "slowdown.png", "latency.svg", "stp.png"} <= {path.name for path in files}
    for path in files:
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG" if path.suffix == ".png" else b"<svg")
        assert path.suffix == ".png" or b"<img" not in content


def test_without_the_renderer_the_next_step_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    run = write_run(tmp_path / "run", blocks=1)
    with pytest.raises(CotenantError, match="vl-convert") as problem:
        report([run], figures=tmp_path / "figures")
    assert "cotenant[figures]" in problem.value.hint
    assert (run / "report.html").exists()


def test_every_library_in_the_page_has_its_licence_beside_it():
    readme = (VENDOR / "README.md").read_text(encoding="utf-8")
    for name in VENDORED:
        assert f"`{name}`" in readme
        licence = (VENDOR / f"LICENSE.{name.removesuffix('.min.js')}.txt").read_text(encoding="utf-8")
        assert "Redistribution and use in source and binary forms" in licence


def test_a_profile_pass_is_labelled_as_such(tmp_path):
    page = page_of(write_run(tmp_path / "run", blocks=0, manifest={"profile_pass": {"tool": "torch"}}))
    assert "is a profile pass" in page
    assert f"cotenant profile {tmp_path / 'run'}" in page
    assert "have no trials yet" not in page


def test_figures_for_a_file_instead_of_a_folder_get_a_sentence(tmp_path):
    pytest.importorskip("vl_convert", reason="vl-convert is not installed")
    taken = tmp_path / "taken"
    taken.write_text("mine")
    with pytest.raises(CotenantError, match="figures can't be written to"):
        report([write_run(tmp_path / "run", blocks=1)], figures=taken)
    assert taken.read_text() == "mine"
