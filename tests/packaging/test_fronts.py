"""Fronts of rooms: other packages import their names from there, and nothing is loaded before it is used."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import cotenant
from cotenant.front import listed

SRC = Path(cotenant.__file__).parent
FRONTS = sorted(path for path in SRC.rglob("__init__.py") if "front(__name__" in path.read_text(encoding="utf-8"))


def package(front: Path) -> str:
    return ".".join(["cotenant", *front.parent.relative_to(SRC).parts])


@pytest.mark.parametrize("front", FRONTS, ids=package)
def test_every_listed_name_is_what_its_module_defines(front):
    room = importlib.import_module(package(front))
    names = listed(str(front))
    assert names
    for name, home in names.items():
        assert getattr(room, name) is getattr(importlib.import_module(home), name)
        assert home.startswith(package(front)), f"{name} lives elsewhere: import it from there"


def test_a_name_that_is_not_listed_is_no_attribute():
    room = importlib.import_module(package(FRONTS[0]))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = room.nonsense


def test_dir_names_what_is_listed():
    for front in FRONTS:
        assert set(listed(str(front))) <= set(dir(importlib.import_module(package(front))))


def test_a_front_loads_nothing_before_a_name_is_used():
    code = (
        "import sys, cotenant.analyse.sharing\n"
        "assert 'cotenant.analyse.sharing.summary' not in sys.modules\n"
        "cotenant.analyse.sharing.MixSummary\n"
        "assert 'cotenant.analyse.sharing.summary' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_both_forms_of_an_import_are_read(tmp_path):
    (tmp_path / "__init__.py").write_text(
        "if TYPE_CHECKING:\n"
        "    from cotenant.text import figure, plural\n"
        "    from cotenant.errors import (\n        BadInput,\n        DataError,\n    )\n"
        "    from cotenant.paths import Runs as Runs\n"
    )
    assert listed(str(tmp_path / "__init__.py")) == {
        "figure": "cotenant.text",
        "plural": "cotenant.text",
        "BadInput": "cotenant.errors",
        "DataError": "cotenant.errors",
        "Runs": "cotenant.paths",
    }
