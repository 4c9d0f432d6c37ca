"""A kill at each step of what a search and a recording server write: what is there is whole, and work goes on."""

import subprocess
import sys
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from cotenant.api.show import show
from cotenant.ranking.folder import RESULT, SearchFolder
from cotenant.reporting.browser.entry import find_runs
from cotenant.serving.recording import REMOVED
from cotenant.store.verifying import verify_run
from tests.faults import dying
from tests.support import pace

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def killed_at_each_step(scene, folder):
    command = [sys.executable, "-m", "tests.faults.dying", scene, folder]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=pace.seconds(300))
    places = [Path(line) for line in done.stdout.splitlines()]
    assert len(places) > 20
    return places


def test_a_search(tmp_path):
    seen = []
    for place in killed_at_each_step("search", tmp_path):
        path = place / "search"
        if (path / "search.json").exists():
            folder = SearchFolder.open(path)
            whole = folder.have(dying.LEAF)
            if whole:
                assert np.array_equal(folder.features(dying.LEAF, whole), dying.FEATURES[:whole])
            assert folder.known.get("done", 0) <= whole, "nothing is noted that isn't there"
            seen.append(whole)
        dying.search(place)
        folder = SearchFolder.open(path)
        assert np.array_equal(folder.features(dying.LEAF, dying.ITEMS), dying.FEATURES)
        assert (path / RESULT).read_text() == "{}"
    assert seen == sorted(seen), "later kills leave no less"
    assert set(seen) == {0, 4, 8, 12}


def test_served_traffic(tmp_path):
    """Each stretch that was reported is there, until the oldest run is removed as a whole."""
    places = killed_at_each_step("served", tmp_path)
    kept = []
    for place in places:
        found = [verify_run(Path(run.folder)) for run in find_runs(place)]
        assert all(run.state == "whole" for run in found), found
        kept.append(sum(run.trials for run in found))
        reported = dying.reported(place)
        removing = kept[-1] < max(kept)
        assert removing or kept[-1] >= (reported.stat().st_size if reported.exists() else 0)
    assert [trials for trials, _ in groupby(kept)] == [0, 1, 2, 3, 1]
    half_removed = [place for place in places if (place / "served" / REMOVED).exists()]
    assert half_removed
    (run,) = (run.folder for run in find_runs(half_removed[0]) if verify_run(Path(run.folder)).trials)
    assert "gpt" in {one.tenant for one in show([Path(run)]).tenants}
    dying.served(half_removed[0])
    assert not (half_removed[0] / "served" / REMOVED).exists(), "the next server removes the rest"
