"""Nothing heavy is loaded before it is needed."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "duckdb", "numpy", "pydantic", "rich", "scipy", "yaml", "psutil", "transformers")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], [], ["run", "--help"], ["run", "--nonsense"], ["shwo"]]
)
def test_help_and_mistakes_load_nothing_heavy(arguments):
    code = (
        "import sys; from cotenant.cli.main import main; main(sys.argv[1:]); "
        f"print('LOADED', *[name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "LOADED"


def test_importing_the_package_loads_nothing_heavy():
    code = f"import sys, cotenant; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
