"""A command opens a run once: one database, one read of the manifest."""

import duckdb
import pytest

from cotenant.cli.main import main
from cotenant.store import manifest
from cotenant.store.folder import RunFolder
from tests.store.synthetic import trial


@pytest.fixture
def run(tmp_path):
    folder = RunFolder.create(tmp_path / "run", {"run": "r", "device": "cpu", "study_name": "mine"})
    for number in range(4):
        solo = number % 2 == 0
        tenants = ("a",) if solo else ("a", "b")
        folder.commit(trial(number, tenants=tenants, block=number // 2, solo=solo))
    return folder.path


@pytest.fixture
def counted(monkeypatch):
    """Count opened databases and read manifests."""
    counts = {"databases": 0, "manifests": 0}
    connect, read = duckdb.connect, manifest.read

    def connecting(*args, **options):
        counts["databases"] += 1
        return connect(*args, **options)

    def reading(folder):
        counts["manifests"] += 1
        return read(folder)

    monkeypatch.setattr(duckdb, "connect", connecting)
    monkeypatch.setattr(manifest, "read", reading)
    return counts


@pytest.mark.parametrize("verb", ["show", "report", "explain", "sql"])
def test_a_verb_opens_a_run_once(run, counted, capsys, verb):
    words = [verb, "select count(*) from trials", str(run)] if verb == "sql" else [verb, str(run)]
    assert main(words) == 0
    assert capsys.readouterr().out
    assert counted == {"databases": 1, "manifests": 1}


def test_a_comparison_opens_both_runs_together(tmp_path, run, counted, capsys):
    later = RunFolder.create(tmp_path / "later", {"run": "s", "device": "cpu", "study_name": "mine"})
    for number in range(4):
        solo = number % 2 == 0
        later.commit(trial(number, tenants=("a",) if solo else ("a", "b"), block=number // 2, solo=solo))
    counted.update(databases=0, manifests=0)
    main(["compare", str(run), str(later.path)])
    assert capsys.readouterr().err == ""
    assert counted == {"databases": 1, "manifests": 2}
