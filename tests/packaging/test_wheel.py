"""The wheel alone is enough: built, installed into an empty environment, and used outside the source tree."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def empty(tmp_path_factory, wheel):
    """An environment with the wheel; its dependencies are borrowed from this one, this checkout is not."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=False)
    python = folder / "bin/python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)],
        check=True,
        capture_output=True,
    )
    (packages,) = (folder / "lib").glob("python*/site-packages")
    # A folder on the path doesn't process its own .pth files, so the editable install stays invisible.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return folder


def run(empty, folder, *arguments):
    return subprocess.run(
        [empty / "bin/cotenant", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
        check=False,
    )


def test_the_wheel_contains_only_the_package(wheel):
    import zipfile

    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"cotenant", f"{wheel.name.rsplit('-', 3)[0]}.dist-info"}
    assert "cotenant/py.typed" in names


def test_the_installed_package_measures_on_a_simulated_device(empty, tmp_path):
    imported = subprocess.run(
        [empty / "bin/python", "-c", "import cotenant; print(cotenant.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(empty) in imported.stdout
    done = run(empty, tmp_path, "run", "quick", "--device", "sim:t4")
    assert done.returncode in {0, 2}, done.stderr
    (manifest,) = tmp_path.glob("runs/*/*/manifest.json")
    shown = run(empty, tmp_path, "show", str(manifest.parent))
    assert "SIMULATED" in shown.stdout
