"""`import cotenant`: the verbs of the command line as typed functions, whatever else was imported."""

import ast
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest

import cotenant
from cotenant.cli.main import VERBS

ROOT = Path(__file__).parents[2]
NAMED_OTHERWISE = {
    "studies": "list_studies",
    "devices": "list_devices",
    "workloads": "list_workloads",
    "fleet": "fleet_job",
}
"""`cotenant.devices`, `cotenant.workloads` and `cotenant.fleet` are packages, so their functions have other names."""
OPTIONAL = {"axe_playwright_python", "mlperf_loadgen", "playwright", "ray", "timm", "torchvision", "vl_convert"}


def submodules() -> list[str]:
    return [found.name for found in pkgutil.walk_packages(cotenant.__path__, "cotenant.")]


@contextmanager
def suppress_absent_extras() -> Iterator[None]:
    """Some modules need optional packages."""
    try:
        yield
    except ModuleNotFoundError as absent:
        if absent.name not in OPTIONAL:
            raise


def test_every_verb_is_a_function_after_every_submodule_was_imported():
    for name in submodules():
        with suppress_absent_extras():
            import_module(name)
    assert inspect.isfunction(cotenant.db.gpus)
    for verb in [verb for verb in VERBS if verb != "db"]:
        function = getattr(cotenant, NAMED_OTHERWISE.get(verb, verb))
        assert inspect.isfunction(function), verb
        assert function.__module__.startswith("cotenant.api."), verb
        assert function.__doc__, verb
    assert cotenant.list_studies()
    assert cotenant.schema()["type"] == "object"
    with pytest.raises(cotenant.QueryError):
        cotenant.explain_metric("no such metric")


def test_every_public_name_exists_and_is_known_to_type_checkers():
    tree = ast.parse(Path(cotenant.__file__).read_text("utf-8"))
    typed = {
        (node.module, alias.asname)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    spaces = {("cotenant.api", "db"), ("cotenant", "types")}
    assert typed == spaces | {(f"cotenant.{home}", name) for name, home in cotenant._HOME.items()}
    assert all(getattr(cotenant, name) is not None for name in cotenant.__all__)
    assert set(cotenant.__all__) <= set(dir(cotenant))


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="banana"):
        getattr(cotenant, "banana")  # noqa: B009 - what a typing mistake does


def test_importing_the_package_imports_no_other_part_of_it():
    code = "import sys, cotenant; print(sorted(name for name in sys.modules if name.startswith('cotenant')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['cotenant']"


@pytest.mark.slow
@pytest.mark.timeout(900)  # the first check of everything that the API imports takes minutes; later ones seconds
def test_a_type_checker_accepts_a_clients_script_and_refuses_wrong_calls(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import cotenant\n"
        "cotenant.run(12, banana=3)\n"
        "cotenant.run('quick').mixes[0].slowdown + 'text'\n"
        "cotenant.search_models\n"
    )
    command = [sys.executable, "-m", "mypy", "tests/cli/sample_client.py", str(wrong)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line.partition("error: ")[2] for line in done.stdout.splitlines() if ": error: " in line]
    assert [line for line in done.stdout.splitlines() if "sample_client" in line] == []
    assert any('"run" has incompatible type "int"' in error for error in errors), done.stdout
    assert any('Unexpected keyword argument "banana"' in error for error in errors), done.stdout
    assert any("Mapping[str, Estimate | Missing]" in error for error in errors), done.stdout
    assert any('"search_models"' in error for error in errors), done.stdout
