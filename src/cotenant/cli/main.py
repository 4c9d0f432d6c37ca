"""The entry point: find the verb, call it, turn any failure into a sentence and an exit code.

Start-up time matters: a verb's file is imported on demand, and it imports what it calls inside its function, so that
`--help` loads only click and starts no second process.
"""

import os
import resource
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import click

from cotenant import __version__

if TYPE_CHECKING:
    from cotenant.cli.failures import Failure


# --- preconditions of any command: standard streams, and memory for the libraries it loads

LEAST_ADDRESS_SPACE = 1 << 30
"""Numerical libraries and the database reserve about this much before they hold a single number. With less they abort
the process with their own message."""


def refusal() -> "Failure | None":
    """Why no command can run here, if so."""
    closed = _fill_streams()
    if 1 in closed:
        from cotenant.cli.failures import Failure

        return Failure("the standard output is closed.", hint="send it to a file, or to /dev/null")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESS_SPACE:
        from cotenant.cli.failures import Failure

        return Failure(
            f"the limit of virtual memory (ulimit -v) is {limit >> 20} MiB, which is too little to load libraries.",
            hint=f"raise it to {LEAST_ADDRESS_SPACE >> 20} MiB or more",
        )
    return None


def _fill_streams() -> set[int]:
    """Replace closed streams by /dev/null: a file opened later must not take their place."""
    closed = set()
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            closed.add(number)
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
    if 2 in closed:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  (a descriptor, kept open)
    return closed


VERBS = {
    "doctor": "Check whether this machine is ready, and what to do if not.",
    "init": "Describe your models once, in one file for every verb.",
    "run": "Run a study: a built-in one, or a YAML file.",
    "show": "Show the results of runs.",
    "report": "Write the results of runs as one HTML file.",
    "compare": "Compare runs: faster, slower, same or ambiguous.",
    "explain": "Explain a run, or a metric such as `stp`.",
    "predict": "Predict mixes from measurements.",
    "profile": "Show kernels by tenant, and how much ran at once.",
    "view": "Show a folder of runs in a browser.",
    "db": "Collect runs of all machines: which GPU is slow?",
    "plan": "Plan who shares which device, how, and at what cost.",
    "serve": "Serve several models on one device, each with its objective.",
    "top": "Show the state of a running server.",
    "copies": "How many copies of a server should share a device?",
    "watch": "Watch servers that already run: who slows whom?",
    "fleet": "Write a Slurm or Kubernetes job that runs a study.",
    "studies": "List the built-in studies.",
    "devices": "List the devices of this machine and the ways to share each.",
    "workloads": "List the workloads, or those that match a name.",
    "search": "Rank models on your data.",
    "batch": "Find the largest batch that fits, and the one that pays.",
    "calibrate": "Fit a simulated GPU to measured solo times, or to a running server.",
    "selftest": "Test timing, sharing, sensors and controls of a device.",
    "sql": "Run an SQL query over the records of runs.",
    "export": "Write a table of runs as CSV, JSON or Parquet.",
    "verify": "Check that runs are unchanged since they were written.",
    "schema": "Print the JSON Schema of study files, for an editor.",
}
"""Verbs in the order a newcomer meets them, with their line in the list; each is a module here with a `command`."""

LONG_RUNNING = ("serve", "fleet", "watch")
"""Verbs that work unattended: what goes wrong is said on stderr without being asked for."""

START = """\
cotenant: should these ML workloads share an accelerator, how, and at what cost?

I have models   cotenant init                  describe them in one file
                cotenant run tenants.yaml      measure it, or simulate a GPU
                cotenant plan tenants.yaml     how many devices, shared how
I have servers  cotenant watch localhost:8000 localhost:8001
                                               who slows whom? It only reads
                cotenant init --model openai:http://localhost:8000
                                               measure them under your own load
I have a fleet  cotenant run variability --devices all
                                               do "identical" GPUs differ?
                cotenant db add RUN && cotenant db gpus
                                               which one is slow, and why
I write a paper cotenant run tenancy --device sim:a100-sxm4-40gb
                cotenant report RUN            every number with its interval

No idea yet?    cotenant run quick             three small models here, 70 s
All verbs       cotenant --help
"""
"""Where to begin, by what somebody has."""

EPILOG = """\b
Start here:  cotenant                  by what you have: models, servers, a fleet, a paper
             cotenant doctor           is this machine ready?
             cotenant run quick        three small models share it: 70 s

\b
Exit codes:  0 ok, 1 error, 2 not ready, unstable or undecided, 3 regression or
             broken objective, 130 interrupted, 129 and 143 ended by a signal
"""


class Verbs(click.Group):
    """A group whose commands are imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All verbs, in reading order."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import the verb's command."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"cotenant.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - the same
        """The list of verbs, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As in click, with a suggestion for a mistyped verb."""
        from cotenant.text import did_you_mean

        verb = args[0]
        if verb not in VERBS and not verb.startswith("-"):
            guess = did_you_mean(verb, VERBS) or f"the verbs are {', '.join(VERBS)}"
            raise click.UsageError(f"There is no verb {verb!r}; {guess}", ctx=ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=Verbs,
    invoke_without_command=True,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", message="cotenant %(version)s")
@click.option("-v", "--verbose", count=True, help="Log progress to stderr; twice: in detail (or set COTENANT_LOG).")
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected error (or set COTENANT_DEBUG=1).")
@click.pass_context
def cli(ctx: click.Context, verbose: int, debug: bool) -> None:
    """Should these workloads share an accelerator, how, and at what cost?"""
    if debug:
        os.environ["COTENANT_DEBUG"] = "1"  # tenant processes inherit it
    level = ("", "info", "debug")[min(verbose, 2)] or os.environ.get("COTENANT_LOG", "")
    level = level or ("warning" if ctx.invoked_subcommand in LONG_RUNNING else "")
    if level:
        from cotenant.cli.logs import log_to_stderr

        log_to_stderr(level)
    if ctx.invoked_subcommand is None:
        click.echo(START, nl=False)


def main(
    arguments: Sequence[str] | None = None,
    command: click.Command = cli,
    name: str = "cotenant",
    guard: Callable[[Callable[[], int]], int] = lambda work: work(),
) -> int:
    """Run a command line and return its exit code; `guard` is called with the part that does the work."""
    if refused := refusal():
        from cotenant.cli.failures import tell

        tell(refused)
        return refused.code
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that can't encode a name still gets the rest
    words = sys.argv[1:] if arguments is None else list(arguments)

    def parse_and_work() -> int:
        with command.make_context(name, words, terminal_width=_width()) as ctx:
            return guard(lambda: _work(ctx))

    return _ended(parse_and_work)


def _work(ctx: click.Context) -> int:
    """Carry out what was parsed, with our handling of signals and warnings."""
    from cotenant import interruption
    from cotenant.cli.output import Exit, spoken

    with interruption.heard(), spoken(debug=bool(os.environ.get("COTENANT_DEBUG"))) as notices:
        code = _ended(lambda: ctx.command.invoke(ctx))
    return Exit.NOT_READY if notices.damage and code == Exit.OK else code


def _ended(step: Callable[[], object]) -> int:
    """The exit code of a step. Not `command.main`, which ends the process itself when a pipe breaks."""
    try:
        try:
            code = step()
        except click.exceptions.Exit as end:  # --help and --version
            code = end.exit_code
        sys.stdout.flush()
    except BrokenPipeError:  # the reader (head, less) has gone
        _discard_output()
        return 0
    except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001 - the edge: nothing passes it as a traceback
        from cotenant import interruption
        from cotenant.cli.failures import explain, tell

        stopped = interruption.came() and not isinstance(problem, KeyboardInterrupt)
        failure = explain(KeyboardInterrupt() if stopped else problem)
        tell(failure)
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
        return failure.code
    return code if isinstance(code, int) else 0


def _discard_output() -> None:
    """Drop what can't be written: Python would complain again, with an exit code of its own, when it closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _width() -> int:
    """Width of the help text. click asks shutil, which imports every compression module."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return _readable(int(columns))
    try:
        return _readable(os.get_terminal_size(1).columns or 80)
    except OSError:  # not a terminal
        return _readable(80)


def _readable(columns: int) -> int:
    return max(min(columns, 100) - 2, 50)


def entry() -> int:
    """The program `cotenant`: the command line is parsed here, and carried out in a supervised process."""
    worked_here = False

    def supervised(work: Callable[[], int]) -> int:
        from cotenant.cli.guarded import guarded

        def noted() -> int:
            nonlocal worked_here
            worked_here = True
            return work()

        return guarded(noted)

    code = main(guard=supervised)
    if not worked_here:
        os._exit(code)  # only click was loaded, and output is flushed: tearing the interpreter down would take longer
    return code


if __name__ == "__main__":
    sys.exit(entry())
