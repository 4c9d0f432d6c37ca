"""Every failure becomes a sentence, a hint and an exit code."""

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cotenant.cli.failures import Interrupted, explain
from cotenant.cli.main import VERBS, cli, main
from cotenant.errors import DeviceBusy, StudyError


def failing(monkeypatch, problem: BaseException):
    def command(*_):
        raise problem

    monkeypatch.setattr(cli, "invoke", command)


def test_an_error_is_a_sentence_and_a_hint_after_a_blank_line(monkeypatch, capsys):
    failing(monkeypatch, DeviceBusy("the device cpu is busy.", hint="wait for process 7"))
    assert main([]) == 1
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err == "error: the device cpu is busy.\n\nhint: wait for process 7\n"


def test_a_wrong_study_shows_all_its_problems(monkeypatch, capsys):
    failing(monkeypatch, StudyError("a.yaml has 2 problems.", problems=("a.yaml:3: x", "a.yaml:9: y"), hint="see docs"))
    assert main([]) == 1
    assert capsys.readouterr().err == "error: a.yaml has 2 problems.\n  a.yaml:3: x\n  a.yaml:9: y\n\nhint: see docs\n"


def test_control_characters_in_a_message_are_escaped(monkeypatch, capsys):
    failing(monkeypatch, StudyError("no workload '\x1b[2Jx'", problems=("k\u202e: \r",)))
    main([])
    assert capsys.readouterr().err == "error: no workload '\\x1b[2Jx'\n  k\\u202e: \\x0d\n"


def test_ctrl_c_during_a_run_names_the_command_that_continues_it(monkeypatch, capsys):
    failing(monkeypatch, Interrupted("cotenant run --resume runs/a"))
    assert main([]) == 130
    assert "continue with `cotenant run --resume runs/a`" in capsys.readouterr().err


def test_ctrl_c_elsewhere_is_one_line(monkeypatch, capsys):
    failing(monkeypatch, KeyboardInterrupt())
    assert main([]) == 130
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "runs/a"), "the disk is full (runs/a)"),
        (PermissionError(errno.EACCES, "Permission denied", "runs"), "no permission to read or write (runs)"),
        (MemoryError(), "memory is used up"),
    ],
)
def test_system_errors_become_a_sentence(problem, words):
    failure = explain(problem)
    assert words in failure.sentence
    assert failure.code == 1


def test_a_defect_asks_for_a_report_and_keeps_the_traceback_in_a_file(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("COTENANT_DEBUG", raising=False)
    failing(monkeypatch, ZeroDivisionError("division by zero"))
    assert main([]) == 1
    seen = capsys.readouterr().err
    assert "Traceback" not in seen
    assert "error: this should not have happened: ZeroDivisionError: division by zero" in seen
    (file,) = tmp_path.iterdir()
    assert str(file) in seen
    assert "Traceback" in file.read_text()


def test_debug_shows_the_traceback(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("COTENANT_DEBUG", "1")
    failing(monkeypatch, ZeroDivisionError())
    main([])
    assert "Traceback" in capsys.readouterr().err


def test_a_mistyped_verb_gets_a_suggestion(capsys):
    assert main(["shwo"]) == 1
    assert "error: There is no verb 'shwo'; did you mean show?" in capsys.readouterr().err


def test_an_unknown_verb_gets_the_list(capsys):
    assert main(["frobnicate"]) == 1
    assert ", ".join(VERBS) in capsys.readouterr().err


def test_a_mistyped_option_gets_a_suggestion_and_where_to_look(capsys):
    assert main(["run", "quick", "--devise", "cpu"]) == 1
    seen = capsys.readouterr().err
    assert "Did you mean '--device'?" in seen
    assert "hint: `cotenant run --help` lists the options" in seen


def test_no_arguments_give_help_on_stdout(capsys):
    assert main([]) == 0
    seen = capsys.readouterr()
    assert "should these ML workloads share an accelerator" in seen.out
    assert seen.err == ""


def test_every_verb_has_help_and_json(capsys):
    for verb in VERBS:
        assert main([verb, "--help"]) == 0
        assert "--json" in capsys.readouterr().out, verb
        assert cli.get_command(None, verb).get_short_help_str()


def test_a_reader_that_leaves_early_is_not_an_error():
    read, write = os.pipe()
    os.close(read)
    code = "import sys; from cotenant.cli.main import main; sys.exit(main(['--help']))"
    done = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_colour_is_used_only_on_a_terminal():
    done = subprocess.run(
        [sys.executable, "-m", "cotenant.cli.main", "shwo"], capture_output=True, check=False, cwd=Path.home()
    )
    assert done.returncode == 1
    assert b"\x1b" not in done.stderr
