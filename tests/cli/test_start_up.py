"""Nothing heavy is loaded before it is needed."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "duckdb", "numpy", "pydantic", "rich", "scipy", "yaml", "psutil", "transformers")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], [], ["plan", "--help"], ["run", "--help"], ["run", "--nonsense"], ["shwo"]]
)
def test_help_and_mistakes_load_nothing_heavy(arguments):
    code = (
        "import sys; from cotenant.cli.main import main; main(sys.argv[1:]); "
        f"print('LOADED', *[name for name in {(*HEAVY, 'logging')} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "LOADED"


def test_python_can_be_asked_for_the_command():
    done = subprocess.run([sys.executable, "-m", "cotenant", "shwo"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "did you mean show" in done.stderr


def test_no_verbs_help_loads_anything_heavy():
    code = (
        "import sys; from cotenant.cli.main import VERBS, main; "
        "codes = {verb: main([verb, '--help']) for verb in VERBS}; "
        f"print('LOADED', *[name for name in {HEAVY} if name in sys.modules], *{{*codes.values()}})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "LOADED 0"


def test_importing_the_package_loads_nothing_heavy():
    code = f"import sys, cotenant; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_list_of_verbs_imports_none_of_them():
    code = (
        "import sys; from cotenant.cli.main import VERBS, main; main(['--help']); "
        "print([verb for verb in VERBS if f'cotenant.cli.{verb}' in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_needs_neither_a_second_process_nor_other_modules_of_ours():
    code = (
        "import os, sys; from cotenant.cli.main import entry, main; os.fork = None; main(['--help']); "
        "print(*sorted(name for name in sys.modules if name.startswith('cotenant')), flush=True); "
        "sys.argv[1:] = ['--help']; sys.exit(entry())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    help_, loaded, again = done.stdout.partition("cotenant cotenant.cli cotenant.cli.main\n")
    assert "Start here:" in help_
    assert loaded
    assert again == help_


def test_showing_a_run_loads_nothing_that_measures(tmp_path):
    from cotenant.store.folder import RunFolder

    run = RunFolder.create(tmp_path / "run", {"study": "tenants: {}\nuntil: {interval: 3%}\n"})
    unwanted = ("torch", "pydantic", "psutil", "cotenant.devices", "cotenant.workloads", "cotenant.measure.session")
    code = (
        "import sys; from cotenant.cli.main import main; assert main(['show', sys.argv[1]]) == 0; "
        f"print([name for name in {unwanted} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run.path)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
