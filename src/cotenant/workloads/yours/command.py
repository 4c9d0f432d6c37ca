"""`command: my-server --flag`: a program that answers each input line with a line, or works by itself."""

import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from cotenant.errors import WorkloadError
from cotenant.workloads.protocol import Built, Place, Stage, WorkloadSpec
from cotenant.workloads.spec_options import UNKNOWN_DTYPE, Opaque, StatedOptions, read_options, refuse_unused
from cotenant.workloads.yours.progress_reports import ProgressClient, ProgressReports, run_aside

PREFIX = "command:"
LONGEST_LINE = 32 * 1024
"""A request must fit into an empty pipe: a program that does not read must not block us."""
LONGEST_ANSWER = 16 * 1024 * 1024
_KEPT_STDERR = 4096
_SETTLE_S = 0.05
_SHELL_ONLY = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "<", "2>", "2>&1"})


class CommandOptions(StatedOptions):
    """What is sent, and how long to wait."""

    line: str | None = None
    """The request; None for a JSON object with request, batch, seq, dtype and seed."""
    progress: str | None = None
    """It gets no requests but works by itself, and each line of its output that matches this regular expression is a
    completed request."""
    step_file: str | None = None
    """The same, for a program that writes its progress into a file: each change is a completed request."""
    prepare: str | None = None
    """A command to run before it."""
    cleanup: str | None = None
    """A command to run after it."""
    timeout_s: float = Field(default=30.0, gt=0)
    start_timeout_s: float = Field(default=120.0, gt=0)

    @field_validator("progress")
    @classmethod
    def _expression(cls, progress: str | None) -> str | None:
        try:
            re.compile(progress or "")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return progress

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        given = [name for name in ("line", "progress", "step_file") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"give `{given[0]}` or `{given[1]}`, not both")
        return self

    @property
    def by_itself(self) -> bool:
        """True if it works without requests."""
        return self.progress is not None or self.step_file is not None

    @field_validator("line")
    @classmethod
    def _one_line(cls, line: str | None) -> str | None:
        if line is not None and ("\n" in line or len(line.encode()) > LONGEST_LINE):
            raise ValueError(f"a request is one line of at most {LONGEST_LINE} bytes")
        return line


@dataclass(frozen=True, slots=True)
class Command(Opaque):
    """A child process, started without a shell; a request is a line on its stdin and a line on its stdout."""

    options: ClassVar[type[StatedOptions]] = CommandOptions
    about: str = "a program that answers one line on stdout for each line on stdin"

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse a command that can't be started; it is not started."""
        refuse_unused(spec, used={"seq", "dtype"})
        read_options(spec, CommandOptions)
        self._arguments()

    def build(self, spec: WorkloadSpec, place: Place) -> Built:  # noqa: ARG002  (a program finds its own device)
        """Start the program and wait until it has answered a first request."""
        self.check(spec)
        options = read_options(spec, CommandOptions)
        arguments = self._arguments()
        if options.prepare is not None:
            run_aside("prepare", options.prepare, options.start_timeout_s)
        if options.by_itself:
            return self._watched(spec, arguments, options)
        child = LineServer(self.name, arguments, options, _asked(spec))
        try:
            child.hand_shake()
        except BaseException:
            child.close()
            _clean_up(options)
            raise

        def close() -> None:
            child.close()
            _clean_up(options)

        return Built(
            stages=(Stage("send", child.send), Stage("wait", child.wait)),
            dtype=spec.dtype or UNKNOWN_DTYPE,
            weights=UNKNOWN_DTYPE,
            seq=spec.seq,
            facts={
                "command": arguments,
                "program": shutil.which(arguments[0]),
                "command_pid": child.pid,
                "line": options.line,
                "stated": options.stated.model_dump(exclude_none=True),
            },
            close=close,
        )

    def _watched(self, spec: WorkloadSpec, arguments: list[str], options: CommandOptions) -> Built:
        client = ProgressClient(
            self.name,
            arguments,
            ProgressReports(options.progress, options.step_file),
            max(options.timeout_s, options.start_timeout_s),
        )

        def close() -> None:
            client.stop()
            _clean_up(options)

        return Built(
            stages=(),
            dtype=spec.dtype or UNKNOWN_DTYPE,
            weights=UNKNOWN_DTYPE,
            seq=spec.seq,
            facts={
                "command": arguments,
                "program": shutil.which(arguments[0]),
                "command_pid": client.pids()[0],
                "progress": options.progress or options.step_file,
                "stated": options.stated.model_dump(exclude_none=True),
            },
            close=close,
            client=client,
        )

    def _arguments(self) -> list[str]:
        text = self.name.removeprefix(PREFIX).strip()
        try:
            arguments = shlex.split(text)
        except ValueError as error:
            raise WorkloadError(f"`{self.name}` can't be split into arguments: {str(error).lower()}") from None
        if not arguments:
            raise WorkloadError("`command:` has no program", hint="for example `command: ./my-server --port 0`")
        shell_only = sorted(_SHELL_ONLY.intersection(arguments))
        if shell_only:
            raise WorkloadError(
                f"`{self.name}` is started without a shell, so `{shell_only[0]}` would only be an argument",
                hint="put the pipeline into a script and name the script",
            )
        if shutil.which(arguments[0]) is None:
            raise WorkloadError(
                f"there is no program `{arguments[0]}` to start for `{self.name}`",
                hint="give its path, or put its directory on PATH; it must be executable",
            )
        return arguments


def _clean_up(options: CommandOptions) -> None:
    if options.cleanup is not None:
        run_aside("cleanup", options.cleanup, options.start_timeout_s)


class LineServer:
    """The running program, which serves requests singly."""

    def __init__(self, name: str, arguments: list[str], options: CommandOptions, asked: Mapping[str, Any]) -> None:
        self._name = name
        self._options = options
        self._asked = asked
        self._line = None if options.line is None else options.line.encode() + b"\n"
        self._sent = 0
        self._timeout_s = options.start_timeout_s
        self._pending = b""
        self._last_words = b""
        try:
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
            )
        except OSError as error:
            raise WorkloadError(f"`{name}` can't be started: {error.strerror or error}") from error
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self.pid = self._process.pid
        self._stdin = self._process.stdin.fileno()
        self._stdout = self._process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._stdout, select.POLLIN)
        self._listener = threading.Thread(target=self._keep_last_words, name="command stderr", daemon=True)
        self._listener.start()

    def hand_shake(self) -> None:
        """One request before counting: waits for the program to start and checks the format of its answer."""
        self.send(None)
        self.wait(None)
        self._timeout_s = self._options.timeout_s
        self._poll.poll(_SETTLE_S * 1e3)
        self._refuse_unasked()

    def send(self, _: Any) -> None:
        """Write the request."""
        self._refuse_unasked()
        line = self._line
        if line is None:
            line = json.dumps({"request": self._sent, **self._asked}).encode() + b"\n"
        self._sent += 1
        try:
            os.write(self._stdin, line)
        except OSError:
            raise self._gone() from None

    def wait(self, _: Any) -> bytes:
        """Read the answer: a line, without its line end."""
        while (end := self._pending.find(b"\n")) < 0:
            if not self._poll.poll(self._timeout_s * 1e3):
                self._process.kill()  # a late answer would be taken for the next request's
                raise WorkloadError(
                    f"`{self._name}` gave no answer within {self._timeout_s:g} s and was stopped",
                    hint="it must flush its output after each line; `params: {timeout_s: ...}` waits longer",
                )
            chunk = os.read(self._stdout, 1 << 16)
            if not chunk:
                raise self._gone()
            self._pending += chunk
            if len(self._pending) > LONGEST_ANSWER:
                self._process.kill()
                raise WorkloadError(f"`{self._name}` wrote {LONGEST_ANSWER >> 20} MiB without an end of line")
        answer, self._pending = self._pending[:end], self._pending[end + 1 :]
        return answer

    def close(self) -> None:
        """Close its stdin, give it time to exit, then stop it and all its children."""
        import psutil

        try:
            offspring = psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            offspring = []
        assert self._process.stdin
        self._process.stdin.close()
        for stop in (self._process.terminate, self._process.kill, None):
            try:
                self._process.wait(timeout=1.0)
                break
            except subprocess.TimeoutExpired:
                if stop:
                    stop()
        for process in offspring:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._listener.join(timeout=1.0)
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe
            pipe.close()

    def _refuse_unasked(self) -> None:
        if not self._pending and not self._poll.poll(0):
            return
        unasked = self._pending or os.read(self._stdout, 1 << 16)
        if not unasked:
            raise self._gone()
        self._pending = unasked
        raise WorkloadError(
            f"`{self._name}` wrote an unexpected line: {_quoted(unasked)}",
            hint="it may write exactly one line to stdout for each request; logs belong on stderr",
        )

    def _gone(self) -> WorkloadError:
        try:
            code = self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            how = "closed its output"
        else:
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        self._listener.join(timeout=0.5)
        words = self._last_words.strip().splitlines()
        last_output = f"; its last output: {_quoted(words[-1])}" if words else ""
        return WorkloadError(f"`{self._name}` {how} before it answered{last_output}")

    def _keep_last_words(self) -> None:
        assert self._process.stderr
        while chunk := self._process.stderr.read(_KEPT_STDERR):
            self._last_words = (self._last_words + chunk)[-_KEPT_STDERR:]


def _asked(spec: WorkloadSpec) -> dict[str, Any]:
    return {"batch": spec.batch, "seq": spec.seq, "dtype": spec.dtype, "seed": spec.seed}


def _quoted(line: bytes) -> str:
    first = line.splitlines()[0].decode(errors="replace")
    return repr(first if len(first) <= 200 else f"{first[:200]}...")
