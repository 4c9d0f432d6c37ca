"""Contents of the pages, requested over a real socket."""

import json
import re
import time
from html import unescape

import pytest

from tests.reporting.browser.view_runs import add_block, write_run
from tests.support import pace

HOSTILE = '<img src=x onerror="hacked=1">\'"</script>\u202e&amp;'


def listed(site, query=""):
    return json.loads(site.ask(f"/runs.json{query}").text)


def names(site, query=""):
    return [run["name"] for run in listed(site, query)["runs"]]


def test_the_list_has_every_run_with_the_newest_first(site):
    runs = pace.until(
        lambda: (
            (all_ := listed(site)["runs"])
            and all(run["verdicts"] is not None for run in all_)
            and all(run["answer"] is not None for run in all_ if run["state"] != "unreadable")
            and all_
        ),
        usual=30,
    )
    by_name = {run["name"]: run for run in runs}
    assert [run["name"] for run in runs if run["name"] != "broken"] == ["solo-sim", "pairs/tuesday", "pairs/monday"]
    assert by_name["pairs/monday"]["answer"].startswith("Share a + b by processes: 1.3")
    assert by_name["pairs/monday"] | {"key": "", "answer": ""} == {
        "key": "",
        "name": "pairs/monday",
        "study": "pairs",
        "device": "cpu",
        "simulated": False,
        "started_utc": "2030-01-01T10:00:00+00:00",
        "state": "complete",
        "why": "all blocks done",
        "trials": 15,
        "verdicts": {"valid": 15},
        "answer": "",
    }
    assert by_name["solo-sim"]["verdicts"] == {"unstable": 3}
    page = site.ask("/").text
    assert page.count("SIMULATED") == 1
    assert "2030-01-01 10:00" in page
    assert "15 valid" in page
    assert '<small class="headline share">Share a + b by processes: 1.3' in page


def test_a_run_that_can_not_be_read_is_in_the_list_with_the_reason(site):
    [broken] = [run for run in listed(site)["runs"] if run["name"] == "broken"]
    assert broken["state"] == "unreadable"
    assert "manifest.json is corrupt" in broken["why"]
    answer = site.ask(f"/run/{broken['key']}")
    assert answer.status == 422
    assert "is corrupt" in answer.text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?q=tuesday", ["pairs/tuesday"]),
        ("?q=PAIRS+cpu+2030-01-01", ["pairs/monday"]),
        ("?study=other", ["solo-sim"]),
        ("?device=sim:a100", ["solo-sim"]),
        ("?state=complete&study=pairs", ["pairs/tuesday", "pairs/monday"]),
        ("?q=nowhere", []),
        ("?page=99&q=monday", ["pairs/monday"]),
        ("?page=-1&q=monday", ["pairs/monday"]),
    ],
)
def test_the_list_can_be_narrowed_down(site, query, found):
    assert names(site, query) == found
    rows = site.ask(f"/rows{query}").text
    assert ("No run matches" in rows) == (not found)


def test_a_long_list_comes_in_pages_that_keep_the_filter(serve, tmp_path):
    for number in range(103):
        write_run(tmp_path / "many" / f"run{number:03d}", blocks=0)
    site = serve(tmp_path)
    assert len(names(site)) == 100
    assert names(site, "?page=2&q=many") == ["many/run002", "many/run001", "many/run000"]
    assert 'href="/?q=many&amp;page=2"' in site.ask("/?q=many").text
    assert 'href="/?q=many"' in site.ask("/?q=many&page=2").text


def test_an_empty_folder_is_a_friendly_page(serve, tmp_path):
    answer = serve(tmp_path).ask("/")
    assert answer.status == 200
    assert "This folder has no runs yet" in answer.text
    assert "cotenant run quick" in answer.text


def test_a_folder_that_is_a_run_shows_that_run(serve, runs):
    assert names(serve(runs / "pairs" / "monday")) == ["monday"]


def test_new_changed_and_removed_runs_are_seen_without_a_restart(serve, tmp_path):
    site = serve(tmp_path)
    assert names(site) == []
    folder = write_run(tmp_path / "one", blocks=0, state="running")
    assert [run["trials"] for run in listed(site)["runs"]] == [0]
    for block in range(3):
        add_block(folder, block)
        assert [run["trials"] for run in listed(site)["runs"]] == [3 * (block + 1)]
    folder.update_manifest(state="complete")
    assert [run["state"] for run in listed(site)["runs"]] == ["complete"]
    folder.path.rename(tmp_path / "two")
    assert names(site) == ["two"]


def test_unchanged_manifests_are_not_read_again(serve, runs, monkeypatch):
    site = serve(runs)
    names(site)
    time.sleep(1.1)  # anything fresher is reread, in case the file system's clock missed a change
    names(site)
    monkeypatch.setattr("cotenant.reporting.browser.index.read_entry", lambda *_: pytest.fail("read again"))
    assert len(names(site)) == 4


def test_a_run_s_page_is_its_report_with_a_way_back(site):
    answer = site.ask(f"/run/{site.key('pairs/monday')}")
    assert answer.status == 200
    assert "The answer</h2>" in answer.text
    assert '<a href="/">All runs</a>' in answer.text
    stated = unescape(answer.text.partition('Security-Policy" content="')[2].partition('"')[0])
    assert answer.headers["Content-Security-Policy"] == f"{stated}; frame-ancestors 'none'"
    assert "unsafe-inline' 'sha" not in stated


def test_a_report_is_made_once_until_its_run_changes(serve, tmp_path, monkeypatch):
    from cotenant.reporting.figures import material

    made = []
    monkeypatch.setattr(material, "gather", lambda paths, gather=material.gather: made.append(paths) or gather(paths))
    folder = write_run(tmp_path / "one")
    site = serve(tmp_path)
    address = f"/run/{site.key('one')}"
    assert site.ask(address).text == site.ask(address).text
    assert len(made) == 1
    add_block(folder, 5)
    site.ask(address)
    assert len(made) == 2


def test_two_runs_are_compared_older_first_and_the_slower_tenant_is_named(site):
    keys = [site.key(name) for name in ("pairs/tuesday", "pairs/monday")]
    page = unescape(site.ask(f"/compare?run={keys[0]}&run={keys[1]}").text)
    assert "Slower: a" in page
    assert page.index("pairs/monday") < page.index("pairs/tuesday")
    assert '<span class="toned bad">slower</span>' in page
    assert f'href="/report?run={keys[1]}&run={keys[0]}"' in page


def test_incomparable_runs_state_the_reason_and_can_still_be_viewed_side_by_side(site):
    keys = "&".join(f"run={site.key(name)}" for name in ("pairs/monday", "solo-sim"))
    page = unescape(site.ask(f"/compare?{keys}").text)
    assert "can't be compared" in page
    side_by_side = site.ask(f"/report?{keys}")
    assert side_by_side.status == 200
    assert "2 runs" in side_by_side.text


@pytest.mark.parametrize("query", ["", "?run=", "?run=0000000000000000", "?run=a&run=b", "?" + "run=x&" * 60])
def test_a_comparison_needs_runs_that_exist(site, query):
    assert site.ask(f"/compare{query}").status == 404
    assert site.ask(f"/report{query}").status == 404


def test_one_run_alone_cannot_be_compared(site):
    answer = site.ask(f"/compare?run={site.key('solo-sim')}")
    assert answer.status == 404
    assert "two runs or more" in answer.text


def test_progress_of_a_run_shows_blocks_trials_and_verdicts(serve, tmp_path):
    folder = write_run(tmp_path / "going", blocks=0, state="running", why="")
    site = serve(tmp_path)
    address = f"/run/{site.key('going')}"
    assert f'href="{address}/progress"' in site.ask("/").text, "a run in progress opens with its progress"
    before = json.loads(site.ask(f"{address}/progress.json").text)
    assert before == {
        "state": "running", "running": True, "why": "", "trials": 0, "verdicts": {}, "block": 0, "blocks_min": 3,
        "blocks_max": 12, "last_trial_utc": None, "devices": [],
    }  # fmt: skip
    for block in range(2):
        add_block(folder, block)
    after = json.loads(site.ask(f"{address}/progress.json").text)
    assert (after["trials"], after["block"], after["verdicts"]) == (6, 2, {"valid": 6})
    assert after["last_trial_utc"] == "2030-01-01T10:05:00+00:00"
    page = site.ask(f"{address}/progress").text
    assert "Block 2 of at least 3 and at most 12" in page
    assert "The report so far" in page
    assert "<html" not in site.ask(f"{address}/standing").text


def test_progress_on_a_cluster_shows_what_each_device_does(serve, tmp_path):
    at = {"a/cuda:0": {"doing": "block 3: bert+<vgg>", "trials": 7}, "b/cuda:0": {"doing": "lost", "trials": 4}, "c": 1}
    write_run(tmp_path / "going", blocks=1, state="running", why="", devices_at=at)
    site = serve(tmp_path)
    address = f"/run/{site.key('going')}"
    found = json.loads(site.ask(f"{address}/progress.json").text)["devices"]
    assert [one["device"] for one in found] == ["a/cuda:0", "b/cuda:0"]
    page = site.ask(f"{address}/progress").text
    assert "block 3: bert+&lt;vgg&gt;" in page
    assert '<td class="number">7</td>' in page


def test_a_run_whose_process_is_gone_is_called_cut_short_and_can_be_resumed(serve, tmp_path, monkeypatch):
    monkeypatch.setattr("platform.node", lambda: "here")
    monkeypatch.setattr("psutil.pid_exists", lambda pid: pid == 1234)
    for pid in (1234, 4321):
        session = {"started_utc": "2030-01-01T10:00:00+00:00", "host": "here", "pid": pid}
        write_run(tmp_path / str(pid), blocks=1, state="running", sessions=[session])
    site = serve(tmp_path)
    assert {run["name"]: run["state"] for run in listed(site)["runs"]} == {"1234": "running", "4321": "cut short"}
    page = site.ask(f"/run/{site.key('4321')}/progress").text
    assert f"cotenant run --resume {tmp_path / '4321'}" in page


def test_a_damaged_trial_is_counted_as_damaged(serve, tmp_path):
    folder = write_run(tmp_path / "one", blocks=1)
    (folder.trial_path(1) / "trials.parquet").write_bytes(b"PAR1 nonsense PAR1")
    site = serve(tmp_path)
    progress = json.loads(site.ask(f"/run/{site.key('one')}/progress.json").text)
    assert progress["verdicts"] == {"valid": 2, "damaged": 1}
    answer = site.ask(f"/run/{site.key('one')}")
    assert answer.status == 200
    assert "damaged" in answer.text


def test_hostile_names_come_out_as_text_on_every_page(serve, tmp_path):
    tenants = {"a": HOSTILE, "b": f"b{HOSTILE}"}
    folders = [
        write_run(tmp_path / f"{number}<b>'\"&", day=1 + number, study=HOSTILE, device=HOSTILE, state="running",
                  why=HOSTILE, tenants=tenants, slow=1 + number)
        for number in range(2)
    ]  # fmt: skip
    site = serve(tmp_path)
    keys = [site.key(folder.path.name) for folder in folders]
    for address in (
        "/", "/rows", f"/run/{keys[0]}", f"/run/{keys[0]}/progress", f"/run/{keys[0]}/standing",
        f"/compare?run={keys[0]}&run={keys[1]}", f"/report?run={keys[0]}&run={keys[1]}", "/?q=%3Cb%3E%22'",
        "/rows?study=%3Cimg%20src=x%3E",
    ):  # fmt: skip
        answer = site.ask(address)
        assert answer.status == 200, address
        assert "<img src=x" not in answer.text, address
        assert "<b>'" not in answer.text, address
        assert "\u202e" not in answer.text, address


@pytest.mark.parametrize(
    "manifest",
    [
        {"sessions": ["x", {"started_utc": 5, "pid": "no", "host": []}]},
        {"study": 5, "study_name": ["x"], "device": {"a": 1}, "state": {"not": "text"}, "why": 3},
        {"study": "not: [a study", "state": "running"},
    ],
)
def test_a_manifest_of_odd_kinds_does_not_break_the_list(serve, tmp_path, manifest):
    write_run(tmp_path / "odd", blocks=1, **manifest)
    site = serve(tmp_path)
    assert names(site) == ["odd"]
    assert site.ask("/").status == 200
    assert site.ask(f"/run/{site.key('odd')}/progress").status == 200


def test_the_list_is_sorted_as_asked_and_otherwise_newest_first(site):
    def studies(query=""):
        return re.findall(r'<td class="study">(.*?)</td>', site.ask(f"/rows{query}").text)

    assert studies("?sort=study") == sorted(studies())
    assert studies("?sort=nonsense") == studies()
    assert 'value="trials"' in site.ask("/").text
