"""`command: ...`: one line in, one line out; programs that die, hang or print too much are distinguished."""

import json
import shlex
import sys

import psutil
import pytest

from cotenant.errors import WorkloadError
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.yours import recognise
from tests.support import pace


class Here:
    torch_device = "cpu"
    default_dtype = "float32"


def python(source: str) -> str:
    return f"command: {shlex.quote(sys.executable)} -u -c {shlex.quote(source)}"


ECHO = "import sys\nfor line in sys.stdin: print(line.strip())"


@pytest.fixture
def built():
    """Builds commands and always closes them."""
    opened = []

    def build(name: str, **fields):
        spec = WorkloadSpec(name=name, **fields)
        workload = recognise(name)
        workload.check(spec)
        opened.append(workload.build(spec, Here()))
        return opened[-1]

    yield build
    for one in opened:
        one.close()


def serve(built) -> bytes:
    value = None
    for stage in built.stages:
        value = stage.run(value)
    return value


def refusal(call) -> str:
    with pytest.raises(WorkloadError) as refused:
        call()
    return refused.value.message


def test_a_request_is_a_line_of_json_and_its_answer_a_line(built):
    echo = built(python(ECHO), batch=4, seq=16, seed=3)
    assert [stage.name for stage in echo.stages] == ["send", "wait"]
    assert json.loads(serve(echo)) == {"request": 1, "batch": 4, "seq": 16, "dtype": None, "seed": 3}
    assert json.loads(serve(echo))["request"] == 2  # number 0 was the handshake


def test_the_line_can_be_the_users(built):
    assert serve(built("command: cat", params={"line": "score this"})) == b"score this"


def test_no_shell_sees_the_command(built):
    shown = built(python("import sys\nfor line in sys.stdin: print(sys.argv[1])") + " '$(touch x) $HOME *'")
    assert serve(shown) == b"$(touch x) $HOME *"


def test_shell_syntax_is_refused():
    spec = WorkloadSpec(name="command: cat | tee x")
    message = refusal(lambda: recognise(spec.name).check(spec))
    assert message == "`command: cat | tee x` is started without a shell, so `|` would only be an argument"


def test_closing_ends_the_program_and_its_children(built):
    source = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "for line in sys.stdin: print(child.pid)\n"
        "import time; time.sleep(60)"
    )
    server = built(python(source))
    grandchild = int(serve(server))
    pid = server.facts["command_pid"]
    server.close()
    assert not psutil.pid_exists(pid)
    pace.until(lambda: not psutil.pid_exists(grandchild) or psutil.Process(grandchild).status() == psutil.STATUS_ZOMBIE)


def test_a_program_that_ends_at_the_start_is_reported_with_its_last_output(built):
    name = python("import sys; print('no model file', file=sys.stderr); sys.exit(3)")
    assert refusal(lambda: built(name)).endswith(
        "ended with exit code 3 before it answered; its last output: 'no model file'"
    )


def test_a_program_that_dies_between_requests_fails_them(built):
    source = "import sys, os, signal\nfor n, line in enumerate(sys.stdin):\n"
    source += "    print(n) if n < 2 else os.kill(os.getpid(), signal.SIGKILL)"
    server = built(python(source))
    assert serve(server) == b"1"
    for _ in range(2):
        assert refusal(lambda: serve(server)).endswith("was killed by SIGKILL before it answered")


def test_a_program_that_never_answers_is_stopped(built):
    name = python("import time; time.sleep(60)")
    assert refusal(lambda: built(name, params={"start_timeout_s": 0.3})).endswith(
        "gave no answer within 0.3 s and was stopped"
    )


def test_a_program_that_hangs_later_is_stopped(built):
    source = "import sys, time\nfor n, line in enumerate(sys.stdin):\n    print(n) if n < 1 else time.sleep(60)"
    server = built(python(source), params={"timeout_s": 0.2})
    assert refusal(lambda: serve(server)).endswith("gave no answer within 0.2 s and was stopped")


def test_a_banner_is_not_taken_for_an_answer(built):
    # In one write with the first answer, so that the test doesn't depend on timing.
    name = python("import sys\nsys.stdout.write('server ready\\n' + sys.stdin.readline())\n" + ECHO)
    assert "wrote an unexpected line: '" in refusal(lambda: built(name))


def test_two_lines_for_one_request_are_refused(built):
    name = python("import sys\nfor line in sys.stdin: print('a\\nb')")
    assert refusal(lambda: built(name)).endswith("wrote an unexpected line: 'b'")


def test_a_flood_on_stderr_neither_blocks_nor_grows(built):
    source = "import sys\nfor line in sys.stdin:\n    sys.stderr.write('x' * 1000000 + '\\nlast\\n')\n    print('done')"
    server = built(python(source))
    assert serve(server) == b"done"
    kept = server.stages[0].run.__self__._last_words
    assert len(kept) <= 4096


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("command:", "`command:` has no program"),
        ("command: 'a", "`command: 'a` can't be split into arguments: no closing quotation"),
        ("command: no-such-program-here", "there is no program `no-such-program-here` to start for"),
        ("command: /etc/passwd", "there is no program `/etc/passwd` to start for"),
    ],
)
def test_a_command_that_cannot_be_started_is_refused_at_once(name, message):
    assert refusal(lambda: recognise(name).check(WorkloadSpec(name=name))).startswith(message)


def test_an_invalid_executable_is_reported(built, tmp_path):
    script = tmp_path / "script"
    script.write_bytes(b"\x00 no program")
    script.chmod(0o755)
    assert "can't be started: Exec format error" in refusal(lambda: built(f"command: {script}"))


@pytest.mark.parametrize("line", ["two\nlines", "x" * 40_000])
def test_a_request_is_one_line_that_fits_into_a_pipe(line):
    spec = WorkloadSpec(name="command: cat", params={"line": line})
    assert "a request is one line of at most" in refusal(lambda: recognise(spec.name).check(spec))


def test_only_stated_costs_are_known():
    spec = WorkloadSpec(name="command: cat", params={"stated": {"parameters": 7}})
    known = recognise(spec.name).properties(spec)
    assert (known.params, known.flops) == (7, None)
