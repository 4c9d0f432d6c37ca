"""A kill at each step of what a search writes: what is there is whole, and the search goes on."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cotenant.ranking.folder import RESULT, SearchFolder
from tests.faults import dying

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def killed_at_each_step(folder):
    command = [sys.executable, "-m", "tests.faults.dying", folder]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    places = [Path(line) for line in done.stdout.splitlines()]
    assert len(places) > 20
    return places


def test_a_search(tmp_path):
    seen = []
    for place in killed_at_each_step(tmp_path):
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
