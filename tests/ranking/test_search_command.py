"""The verb as users see it: results, kills and resumption, refusals in one sentence."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from html import unescape
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

from cotenant.api.search import search
from cotenant.cli.main import main
from cotenant.errors import CotenantError
from cotenant.ranking.outcome import PlannedSearch, RoundEnded, Working
from cotenant.ranking.ranking import ScoredModel, ranks, score, tied
from cotenant.ranking.scorers import find_scorer
from tests.support import pace

pytestmark = [pytest.mark.slow, pytest.mark.long]


def started(arguments, folder):
    return subprocess.Popen(
        [sys.executable, "-m", "cotenant.cli.main", "search", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def found_features(folder):
    return {path: path.stat().st_mtime_ns for path in folder.glob("out/*/*/features/*/*.npy")}


def test_a_killed_search_resumes_without_redoing_or_losing_anything(siblings, photos, tmp_path):
    made = str(siblings("vit-l-16-mini", 6, changed=3)[0].parent)
    arguments = ["--data", str(photos), made, "--exact", "--scorer", "knn", "--out", "out", "--memory", "40MB", "-q"]
    process = started(arguments, tmp_path)
    deadline = time.monotonic() + pace.seconds(120)
    while len(found_features(tmp_path)) < 3:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = found_features(tmp_path)
    (folder,) = (tmp_path / "out").glob("*/*")
    assert not (folder / "result.json").exists()

    resumed = search(None, resume=folder)
    after = found_features(tmp_path)
    assert before.items() <= after.items()
    assert len(after) > len(before)

    whole = search(str(photos), [made], scorer="knn", exact=True, memory_bytes=40 * 10**6, out=tmp_path / "whole")
    for leaf in (whole.folder / "features").iterdir():
        parts = [np.concatenate([np.load(part) for part in sorted(place.glob("*.npy"))])
                 for place in (leaf, folder / "features" / leaf.name)]  # fmt: skip
        assert np.array_equal(*parts)
    assert [(line.rank, line.name, line.estimate) for line in resumed.ranking] == [
        (line.rank, line.name, line.estimate) for line in whole.ranking
    ]


def test_the_command_prints_a_ranking_and_writes_a_self_contained_page(siblings, photos, tmp_path, capsys):
    made = siblings("vit-b-16-mini", 3, changed=1)
    out = str(tmp_path / "out")
    code = main(
        ["search", "--data", str(photos), "--models", "vit-b-32-mini", *map(str, made), "--scorer", "knn", "--out", out]
    )
    text, talk = capsys.readouterr()
    assert code == 0
    assert re.search(r"sibling-0\d +[01]\.\d{3} \[", text)
    assert "random vit" in text
    assert "raw pixels" in text
    assert "timed only" in text
    assert "vit-b-32-mini" in text.split("timed only")[1]
    assert "predicted" in text
    assert "3 models, 72 items" in talk
    assert talk.startswith("vit-b-32-mini has no weights here: will be timed, not ranked."), "before anything is loaded"
    assert re.match(r"sibling-0\d is|sibling-0\d, ", text), "the answer comes first"
    assert "leads with" in talk

    (folder,) = (tmp_path / "out").glob("*/*")
    assert {line["name"] for line in json.loads((folder / "result.json").read_text())["ranking"]} == {
        "sibling-00",
        "sibling-01",
        "sibling-02",
    }
    page = (folder / "report.html").read_text()
    assert "default-src 'none'" in unescape(page)
    assert links(page) == []
    assert main(["search", "--resume", str(folder), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert [line["name"] for line in again["timed"]] == ["vit-b-32-mini"]


def links(page):
    """Everything a browser would load."""
    loaded = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            given = dict(attrs)
            loaded.extend(given[name] for name in ("src", "href") if name in given and not given[name].startswith("#"))

    Reader().feed(page)
    return loaded


def test_hostile_names_are_text_on_the_page(siblings, photos, tmp_path):
    (made,) = siblings("vit-b-16-mini", 1, changed=1)
    made = made.rename(made.with_name("<img src=x onerror=alert(1)>"))
    outcome = search(str(photos), [str(made)], scorer="knn", out=tmp_path / "out")
    assert "<img" not in (outcome.folder / "report.html").read_text().split("<script>")[0]


def test_listeners_hear_the_plan_the_leader_and_the_time_left(siblings, photos, tmp_path):
    heard = []
    search(str(photos), [str(siblings("vit-b-16-mini", 5, changed=1)[0].parent)], scorer="knn", out=tmp_path / "out",
           listener=heard.append)  # fmt: skip
    (plan,) = [event for event in heard if isinstance(event, PlannedSearch)]
    assert plan.models == 5
    assert plan.rounds == 3
    assert plan.predicted_s > 0
    assert plan.steps_shared < plan.steps_alone
    ended = [event for event in heard if isinstance(event, RoundEnded)]
    assert [event.models for event in ended] == [5, 3, 2]
    working = [event for event in heard if isinstance(event, Working) and event.left_s is not None]
    assert all(event.left_s >= 0 for event in working)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--models", "bert-base-mini"], "contains images, but none of the candidates reads images"),
        (["--models", "vit-b-16-mini", "--scorer", "guess"], "there is no scorer 'guess'"),
        (["--models", "vit-b-16-mini", "--memory", "4 sheep"], "'4 sheep' is not a size of memory"),
        (["--models", "vit-b-16-mini", "--budget", "soon"], "'soon' is not a time"),
        (["--models", "vit-b-16-mini", "--device", "sim:a100-sxm4-40gb"], "a search runs on cpu or cuda:N"),
        (["--models", "sgemm"], "is not a model for images or texts"),
        (["--models", "vit-b-16-mini,vit-b-16-mini"], "is named twice"),
        (["--models", "efficientnet-lite0"], "the weights of efficientnet-lite0 are not here"),
        (["--models", "nonsense-net"], "there is no workload 'nonsense-net'"),
        ([], "Name models"),
    ],
)
def test_impossible_searches_are_refused_in_one_sentence(arguments, sentence, photos, tmp_path, capsys):
    assert main(["search", "--data", str(photos), "--out", str(tmp_path / "out"), *arguments]) == 1
    said = capsys.readouterr().err
    assert sentence in said
    assert "Traceback" not in said


def test_weights_that_do_not_match_their_configuration_are_refused(siblings, photos, tmp_path):
    from safetensors.torch import load_file, save_file

    (made,) = siblings("vit-b-16-mini", 1, changed=1)
    weights = load_file(made / "model.safetensors")
    save_file({name: tensor for name, tensor in weights.items() if ".2." not in name}, made / "model.safetensors")
    with pytest.raises(CotenantError, match=r"don't match the model: \d+ of \d+ parameters are missing"):
        search(str(photos), [str(made)], out=tmp_path / "out")


def test_a_text_model_without_its_vocabulary_is_refused(siblings, text_table, tmp_path):
    (made,) = siblings("bert-base-mini", 1, changed=1)
    (made / "vocab.txt").unlink()
    with pytest.raises(CotenantError, match="has no vocabulary"):
        search(text_table, [str(made)], out=tmp_path / "out")


def test_a_search_does_not_resume_with_other_data(siblings, photos, tmp_path):
    (made,) = siblings("vit-b-16-mini", 1, changed=1)
    outcome = search(str(photos), [str(made)], scorer="knn", out=tmp_path / "out")
    next(photos.rglob("*.png")).unlink()
    with pytest.raises(CotenantError, match=r"the data of .* changed"):
        search(None, resume=outcome.folder)


def test_a_full_disk_is_one_sentence_and_loses_nothing(siblings, photos, tmp_path, monkeypatch):
    import errno

    from cotenant.ranking import folder as module

    (made,) = siblings("vit-b-16-mini", 1, changed=1)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module.np, "save", full)
    with pytest.raises(CotenantError, match="not enough space for features"):
        search(str(photos), [str(made)], scorer="knn", out=tmp_path / "out")
    monkeypatch.undo()
    (folder,) = (tmp_path / "out").glob("*/*")
    assert not list(folder.rglob("*.new"))
    assert search(None, resume=folder).ranking[0].name == "sibling-00"


def test_too_little_disk_space_is_refused_before_anything_is_computed(siblings, photos, tmp_path, monkeypatch):
    from cotenant.ranking import session

    (made,) = siblings("vit-b-16-mini", 1, changed=1)
    monkeypatch.setattr(session.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(CotenantError, match="not enough space for the features"):
        search(str(photos), [str(made)], scorer="knn", out=tmp_path / "out")
    assert not list((tmp_path / "out").rglob("*.npy"))


def test_bad_images_are_refused_or_counted(siblings, photos, tmp_path):
    (made,) = siblings("vit-b-16-mini", 1, changed=1)
    next(photos.rglob("*.png")).write_bytes(b"no image")
    with pytest.raises(CotenantError):
        search(str(photos), [str(made)], scorer="knn", out=tmp_path / "out")
    outcome = search(str(photos), [str(made)], scorer="knn", skip_bad=True, out=tmp_path / "out")
    assert outcome.skipped == 1
    assert outcome.items == 71


def test_candidates_that_halves_cannot_separate_share_a_rank():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.02, 8)
    best = ScoredModel(0.80, 400, tuple(0.79 + noise))
    close = ScoredModel(0.79, 400, tuple(0.785 + noise + rng.normal(0, 0.02, 8)))
    worse = ScoredModel(0.60, 400, tuple(0.59 + noise))
    assert tied(best, close)
    assert not tied(best, worse)
    assert ranks([best, close, worse]) == [1, 1, 3]
    assert not tied(best, ScoredModel(0.80, 200, best.halves)), "scored on other items"
    assert best.estimate.lo < 0.80 < best.estimate.hi


def separated(count, items, apart):
    """How often two candidates are separated, and how often the interval covers the mean score."""
    scorer, labels = find_scorer("knn"), np.arange(items) % 4
    centres = np.random.default_rng(99).normal(size=(4, 16)) * 0.45
    pairs = []
    for number in range(count):
        rng = np.random.default_rng(number)
        sets = [(scale * centres[labels] + rng.normal(size=(items, 16))).astype(np.float32) for scale in (1, 1 + apart)]
        pairs.append([score(scorer, one, labels, classes=4, seed=0) for one in sets])
    mean = np.mean([one.score for one, _ in pairs])
    held = [one.estimate.lo <= mean <= one.estimate.hi for one, _ in pairs]
    return np.mean([not tied(*pair) for pair in pairs]), np.mean(held)


def test_items_separate_different_candidates_and_rarely_equal_ones():
    alarms, held = separated(60, 160, apart=0)
    assert alarms <= 0.1
    assert held >= 0.9
    alarms, _ = separated(20, 160, apart=1)
    assert alarms >= 0.8


def test_a_resumed_search_does_not_silently_ignore_other_settings(tmp_path, capsys):
    assert main(["search", "--resume", str(tmp_path), "--scorer", "knn"]) == 1
    assert "keeps its settings: leave out --scorer" in capsys.readouterr().err


def test_weights_of_another_size_are_refused_with_both_sizes(siblings, photos, tmp_path):
    (made,) = siblings("vit-b-16-mini", 1, changed=1)
    settings = json.loads((made / "config.json").read_text())
    settings["intermediate_size"] *= 2
    (made / "config.json").write_text(json.dumps(settings))
    with pytest.raises(CotenantError, match=r"don't match the model: \S+ is \d+( x \d+)? in the file, and \d+"):
        search(str(photos), [str(made)], out=tmp_path / "out")


def test_a_search_without_weights_only_times_models(photos, tmp_path, capsys):
    """There is nothing to compare with baselines, so none are extracted, and none of their time is missing."""
    code = main(["search", "--data", str(photos), "--models", "vit-b-32-mini", "--scorer", "knn", "--out", str(tmp_path / "out"), "--json"])  # fmt: skip # noqa: E501
    text, talk = capsys.readouterr()
    outcome = json.loads(text)
    assert code == 0
    assert (outcome["ranking"], outcome["baselines"], outcome["predicted_s"]) == ([], [], 0.0)
    assert [line["name"] for line in outcome["timed"]] == ["vit-b-32-mini"]
    assert "nothing to rank" in talk
