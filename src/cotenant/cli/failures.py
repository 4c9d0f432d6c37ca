"""Turn every failure into a sentence, a hint and an exit code."""

import errno
import os
import sys
from dataclasses import dataclass

import click

from cotenant.cli.output import Exit
from cotenant.errors import CotenantError, ImpossibleObjectives, StudyError
from cotenant.extras import EXTRAS, missing
from cotenant.interruption import exit_code
from cotenant.opening import system_words
from cotenant.text import literal

_MEMORY = "this machine's memory is used up, or a limit (ulimit -v) is reached."
_MEMORY_HINT = "close other programs, raise the limit, or measure smaller models or fewer tenants at once"


@dataclass(frozen=True, slots=True)
class Failure:
    """The message for the user."""

    sentence: str
    code: Exit = Exit.ERROR
    details: tuple[str, ...] = ()
    hint: str | None = None


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during resumable work; ``resume`` is the command that continues it."""

    def __init__(self, resume: str, kept: str = "finished trials") -> None:
        super().__init__()
        self.resume = resume
        self.kept = kept


def explain(problem: BaseException) -> Failure:  # noqa: PLR0911 - a return per case
    """The message for an exception."""
    match problem:
        case StudyError():
            return Failure(problem.message, details=problem.problems, hint=problem.hint)
        case ImpossibleObjectives():
            return Failure(problem.message, Exit.BREACH, hint=problem.hint)
        case CotenantError():
            return Failure(problem.message, hint=problem.hint)
        case click.UsageError():
            return _usage(problem)
        case click.ClickException():
            return Failure(problem.format_message())
        case Interrupted():
            return Failure(f"{problem.kept} are on disk; continue with `{problem.resume}`", Exit(exit_code()))
        case KeyboardInterrupt():
            return Failure("nothing was left unfinished.", Exit(exit_code()))
        case OSError():
            return _system(problem)
    return _refused(problem) or _unexpected(problem)


def tell(failure: Failure) -> None:
    """Print to stderr: the sentence, each detail on its own line, a blank line, the hint."""
    interrupted = failure.code in {Exit.HUNG_UP, Exit.INTERRUPTED, Exit.TERMINATED}
    label = click.style("interrupted:", fg="yellow") if interrupted else click.style("error:", fg="red", bold=True)
    _say(f"{label} {_lines(failure.sentence)}")
    for detail in failure.details:
        _say(f"  {literal(detail)}")
    if failure.hint:
        _say("")
        _say(f"{click.style('hint:', fg='cyan')} {_lines(failure.hint)}")


def _lines(text: str) -> str:
    return literal(text, keep="\n")


def _say(line: str) -> None:
    try:
        click.echo(line, err=True, color=False if os.environ.get("NO_COLOR") else None)
    except OSError:  # a pipe without a reader, a closed terminal
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _usage(problem: click.UsageError) -> Failure:
    where = problem.ctx.command_path if problem.ctx else "cotenant"
    sentence = problem.format_message()
    if isinstance(problem, click.NoSuchOption):
        near = f" Did you mean {problem.possibilities[0]!r}?" if problem.possibilities else ""
        sentence = f"There is no option {problem.option_name!r}.{near}"
    return Failure(sentence, hint=f"`{where} --help` lists the options")


def _system(problem: OSError) -> Failure:
    where = f" ({problem.filename})" if problem.filename else ""
    match problem.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return Failure(
                f"the disk is full{where}.",
                hint="free some space; continue an interrupted run with `cotenant run --resume RUN`",
            )
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return Failure(f"no permission to read or write{where}: {problem.strerror}.")
        case errno.EMFILE | errno.ENFILE:
            return Failure("too many files are open.", hint="raise the limit: `ulimit -n 4096`")
        case errno.ENOMEM | errno.EAGAIN:
            return Failure(_MEMORY, hint=_MEMORY_HINT)
        case None:
            return _unexpected(problem)
    return Failure(f"the system refused{where}: {(problem.strerror or 'unknown reason').lower()}.")


def _refused(problem: BaseException) -> Failure | None:
    """A system error that a library reports in its own way; None if it is a defect of ours."""
    words = str(problem).splitlines()[0].split(": ", 1)[-1].rstrip(".") if str(problem) else ""
    kind = type(problem).__name__
    no_memory = {
        "ImportError": ("failed to map", "cannot allocate"),
        "SystemError": ("without exception set",),  # how the interpreter reports a lack of memory
        "MemoryError": ("",),
        "OutOfMemoryException": ("",),
    }
    if any(part in words for part in no_memory.get(kind, ())):
        return Failure(_MEMORY, hint=_MEMORY_HINT)
    if isinstance(problem, ModuleNotFoundError) and (problem.name or "").split(".")[0] in EXTRAS:
        lacks = missing(str(problem.name).split(".")[0], "this")
        return Failure(f"{lacks.message}.", hint=lacks.hint)
    if kind == "ImportError" and "shared object" in words:
        return Failure(f"a library can't be loaded: {words}.")
    if kind == "RuntimeError" and "start new thread" in words:
        return Failure("no more threads can be started.", hint="raise the limits: `ulimit -u` and `ulimit -v`")
    if kind == "IOException" and type(problem).__module__ == "_duckdb":
        return Failure(f"a file can't be read or written: {system_words(problem)}.")
    return None


def _unexpected(problem: BaseException) -> Failure:
    """A defect of ours: save the traceback for a report instead of printing it."""
    import shlex
    import tempfile
    import traceback

    trace = "".join(traceback.format_exception(problem))
    if os.environ.get("COTENANT_DEBUG"):
        _say(trace)
    sentence = f"this should not have happened: {type(problem).__name__}: {problem}".rstrip(": ")
    try:
        with tempfile.NamedTemporaryFile("w", prefix="cotenant-", suffix=".txt", delete=False) as file:
            file.write(f"$ {shlex.join(sys.argv)}\n\n{trace}".encode("ascii", "backslashreplace").decode())
    except OSError:
        return Failure(sentence, hint="set COTENANT_DEBUG=1 to see the traceback, and please report it")
    return Failure(sentence, hint=f"please report it with the traceback in {file.name}")
