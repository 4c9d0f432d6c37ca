"""A time budget is kept: fewer items are planned, the search stops in time, ranks what it has, and can be resumed."""

from types import SimpleNamespace

import pytest

from cotenant.api.search import search
from cotenant.errors import CotenantError
from cotenant.ranking import planning as planning_module
from cotenant.ranking import preparation
from cotenant.ranking.costs import SearchDuration, all_at_once
from cotenant.ranking.folder import SearchFolder
from cotenant.ranking.planning import Allowance, Later, plan
from cotenant.ranking.protocol import SearchSettings
from cotenant.ranking.scorers import find_scorer
from cotenant.ranking.tree import Path, TreeStep

PER_PART_S = 100.0


@pytest.fixture
def clock(monkeypatch):
    """A clock moved by the test."""
    state = SimpleNamespace(now=0.0)
    monkeypatch.setattr(planning_module, "time", SimpleNamespace(monotonic=lambda: state.now))
    return state


@pytest.fixture
def slow_parts(clock, monkeypatch):
    """Every part is one batch, and takes long by the clock."""
    commit = SearchFolder.commit

    def slowly(folder, leaf, first, features):
        commit(folder, leaf, first, features)
        clock.now += PER_PART_S

    monkeypatch.setattr(SearchFolder, "commit", slowly)
    monkeypatch.setattr(preparation, "PART_S", 0.0)


def ready(*, items=2000, models=2, per_item_s=0.1, score_s=0.0):
    """Models of one architecture each, with the same time per item."""
    paths = {one: Path(one, (TreeStep(f"digest {one}", "whole", 4, seconds=per_item_s),)) for one in range(models)}
    return SimpleNamespace(
        bench=SimpleNamespace(
            data=range(items),
            batch=32,
            candidates=[SimpleNamespace(architecture=f"kind {one}") for one in range(models)],
        ),
        least_items=96,
        ranked=tuple(range(models)),
        paths=paths,
        scorer=find_scorer("knn"),
        score_s=lambda count: score_s * count,
        plan=lambda count, exact: all_at_once(models, count),
        predict=lambda rounds: SearchDuration(models * per_item_s * rounds[-1].items, 0.0, 0.0),
    )


def planned(budget_s, **of):
    return plan(ready(**of), SearchSettings("data", (), exact=True), Allowance(budget_s), None)


def test_the_plan_takes_as_many_items_as_can_be_handled_baselines_included(clock):
    # 0.2 s per item for two models, and the same again for random weights in both.
    assert planned(None).items == 2000
    assert planned(None).predicted_s == pytest.approx(800)
    assert planned(1000.0).items == 2000
    some = planned(200.0)
    assert some.predicted_s == pytest.approx(0.4 * some.items)
    assert 0.75 * 200 < some.predicted_s < 0.9 * 200
    assert some.items % 32 == 0
    assert some.notes == (f"At most {some.items:,} of 2,000 items are used, since all would exceed the time budget.",)


def test_a_budget_too_small_for_the_minimum_of_items_is_refused_at_once(clock):
    with pytest.raises(
        CotenantError, match=r"rank 2 models even on 96 items: .*38 s, but the budget is 30 s"
    ) as refused:
        planned(30.0)
    assert refused.value.hint == "--budget 50s, or fewer models"
    assert planned(45.0).items == 96


def test_preparation_uses_up_the_budget(clock):
    allowance = Allowance(400.0)
    clock.now = 200.0
    found = plan(ready(), SearchSettings("data", (), exact=True), allowance, None)
    assert found.items == planned(200.0).items


def test_a_resumed_search_keeps_its_items(clock):
    found = plan(ready(), SearchSettings("data", (), exact=True), Allowance(1.0), 512)
    assert found.items == 512


def test_the_rest_is_estimated_at_the_pace_so_far(clock):
    allowance = Allowance(100.0)
    assert allowance.items(per_item_s=0.5, later=Later(0.5)) == pytest.approx(100)
    clock.now, allowance.done_s = 40.0, 20.0  # twice as long as predicted
    assert allowance.pace == pytest.approx(2.0)
    assert allowance.items(per_item_s=0.5, later=Later(0.5, 3.0), first=20) == pytest.approx(
        (60 / 2 - 3 - 20 * 0.5) / 1.0
    )
    clock.now = 101.0
    assert allowance.items(per_item_s=0.5, later=Later(0.5)) == 0


def test_a_search_out_of_time_ranks_what_it_has_and_can_be_resumed(siblings, photos, tmp_path, slow_parts):
    (made,) = siblings("vit-b-16-mini", 1, changed=1, seed=3)
    cut = search(str(photos), [str(made)], scorer="knn", budget_s=1.5 * PER_PART_S, out=tmp_path / "cut")
    assert (cut.items, cut.items_there) == (64, 72)
    assert [line.estimate.n for line in cut.ranking] == [64]
    assert [line.estimate.n for line in cut.baselines] == [64, 64], "a comparison on the same items"
    (note,) = [note for note in cut.notes if "were up" in note]
    assert "in round 1 of 1, after 64 of 72 items" in note
    assert f"cotenant search --resume {cut.folder}" in note

    whole = search(str(photos), [str(made)], scorer="knn", out=tmp_path / "whole")
    on = search(None, resume=cut.folder)
    assert on.items == 72
    assert [(line.name, line.estimate) for line in on.ranking] == [(line.name, line.estimate) for line in whole.ranking]
    assert on.baselines == whole.baselines
    assert not on.notes


def test_too_few_items_to_rank_by_are_an_error_with_the_resume_command(siblings, photos, tmp_path, slow_parts):
    (made,) = siblings("vit-b-16-mini", 1, changed=1)
    with pytest.raises(CotenantError, match=r"after 32 of 72 items: too few to rank by") as refused:
        search(str(photos), [str(made)], scorer="knn", budget_s=0.5 * PER_PART_S, out=tmp_path / "out")
    (folder,) = (tmp_path / "out").glob("*/*")
    assert refused.value.hint == f"cotenant search --resume {folder}"
    assert search(None, resume=folder, budget_s=1e6).items == 72
