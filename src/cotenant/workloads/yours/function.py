"""`package.module:function`: a user's function that returns what a request does."""

import functools
import importlib
import inspect
import json
import subprocess
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from cotenant.errors import WorkloadError
from cotenant.text import did_you_mean
from cotenant.workloads.protocol import Built, Place, Properties, Stage, WorkloadSpec
from cotenant.workloads.spec_options import FAMILY, UNKNOWN_DTYPE, StatedOptions, read_options, refuse_unused

ARGUMENTS = ("batch", "seq", "device", "dtype", "seed", "params")
"""Arguments a user's function can have; it gets those in its signature."""

IMPORT_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Function:
    """Called once, with the arguments it names; its return value serves the requests."""

    name: str
    family: str = FAMILY
    about: str = "a Python function that returns what one request does"

    def check(self, spec: WorkloadSpec) -> None:
        """Inspect the function in a separate process, without calling it.

        The user's module may claim a device, print, or end the process when it is imported, so not in ours.
        """
        self.check_unexecuted(spec)
        refuse_unaccepted(spec, _accepted_in_child(self.name, str(Path.cwd())))

    def check_unexecuted(self, spec: WorkloadSpec) -> str:
        """Check what is possible without running the user's code; return what isn't, as the end of a sentence."""
        refuse_unused(spec, used={"seq", "dtype"})
        _stated(spec)
        return f"`{self.name}` was not imported: whether it exists and takes these arguments is unknown"

    def properties(self, spec: WorkloadSpec) -> Properties:
        """Only what the user states: a function can do anything."""
        return _stated(spec).stated.properties()

    def build(self, spec: WorkloadSpec, place: Place) -> Built:
        """Call the function and turn its result into stages."""
        stated = _stated(spec).stated
        dtype = spec.dtype or place.default_dtype
        offered: dict[str, Any] = {
            "batch": spec.batch,
            "seq": spec.seq,
            "device": place.torch_device,
            "dtype": dtype,
            "seed": spec.seed,
            "params": _own_params(spec),
        }
        with _current_directory_importable():
            function = load(self.name)
            accepted = accepted_arguments(self.name, function)
            refuse_unaccepted(spec, accepted)
            try:
                answer = function(**{key: value for key, value in offered.items() if key in accepted})
            except (Exception, SystemExit) as error:
                raise WorkloadError(
                    f"`{self.name}` raised while it was building: {what_and_where(error)}",
                    hint="call it yourself with the same arguments; it must return what one request does",
                ) from error
        stages, close = stages_of(answer, self.name)
        return Built(
            stages=stages,
            dtype=dtype if "dtype" in accepted else UNKNOWN_DTYPE,
            weights=UNKNOWN_DTYPE,
            seq=spec.seq,
            facts={
                "function": self.name,
                "file": inspect.getsourcefile(inspect.unwrap(function)) if inspect.isroutine(function) else None,
                "params": _own_params(spec),
                "stated": stated.model_dump(exclude_none=True),
            },
            close=close,
        )


def load(name: str) -> Callable[..., Any]:
    """Import the module and find the function in it."""
    module_name, _, path = name.partition(":")
    try:
        object_: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise _no_such_module(name, error.name) from error
        raise WorkloadError(f"importing `{module_name}` raised {what_and_where(error)}") from error
    for part in path.split("."):
        if not hasattr(object_, part):
            public = [f"{module_name}:{name}" for name in dir(object_) if not name.startswith("_")]
            raise WorkloadError(
                f"`{module_name}` has no `{path}`", hint=did_you_mean(f"{module_name}:{part}", public, cutoff=0.7)
            )
        object_ = getattr(object_, part)
    if not callable(object_):
        raise WorkloadError(
            f"`{name}` is {_a(object_)}, not a function", hint="name a function that returns a callable"
        )
    function: Callable[..., Any] = object_
    return function


def accepted_arguments(name: str, function: Callable[..., Any]) -> tuple[str, ...]:
    """Our arguments that the function names; any other is refused."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    for parameter in parameters:
        required = parameter.default is parameter.empty
        by_name = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if (required and by_name and parameter.name not in ARGUMENTS) or (
            required and parameter.kind is parameter.POSITIONAL_ONLY
        ):
            raise WorkloadError(
                f"`{name}` needs the argument `{parameter.name}`, which is not available",
                hint=f"it can take {', '.join(ARGUMENTS)}; its own options come as the mapping `params`",
            )
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return ARGUMENTS
    return tuple(
        p.name for p in parameters if p.name in ARGUMENTS and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    )


def refuse_unaccepted(spec: WorkloadSpec, accepted: tuple[str, ...]) -> None:
    """Refuse what the tenant sets but the function would never see."""
    description = {
        "batch": spec.batch if spec.batch > 1 else None,
        "seq": spec.seq,
        "dtype": spec.dtype,
        "params": _own_params(spec) or None,
    }
    for argument, value in description.items():
        if value is not None and argument not in accepted:
            raise WorkloadError(
                f"`{spec.name}` does not take `{argument}`, but the tenant sets `{argument}: {value}`",
                hint=f"give the function an argument `{argument}`, or remove `{argument}` from the tenant",
            )


@functools.lru_cache(maxsize=64)
def _accepted_in_child(name: str, directory: str) -> tuple[str, ...]:
    try:
        child = subprocess.run(
            [sys.executable, "-P", "-c", f"from {__name__} import tell; tell()", name],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=IMPORT_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise WorkloadError(
            f"importing the module of `{name}` took more than {IMPORT_LIMIT_S:.0f} s",
            hint="do slow work inside the function, not at import",
        ) from None
    try:
        description = json.loads(child.stdout)
    except ValueError:
        last = child.stderr.strip().splitlines()[-1:] or ["no message"]
        raise WorkloadError(
            f"importing the module of `{name}` ended its process (exit code {child.returncode}): {last[0][:300]}"
        ) from None
    if "message" in description:
        raise WorkloadError(description["message"], hint=description["hint"])
    return tuple(description["accepted"])


def look(name: str) -> dict[str, Any]:
    """The facts `check` needs, JSON-able; run in a separate process."""
    try:
        with redirect_stdout(sys.stderr), _current_directory_importable():
            return {"accepted": accepted_arguments(name, load(name))}
    except WorkloadError as error:
        return {"message": error.message, "hint": error.hint}


def tell() -> None:
    """The child's main: answers with a JSON object, whatever the user's module prints."""
    sys.stdout.write(json.dumps(look(sys.argv[1])))


@contextmanager
def _current_directory_importable() -> Iterator[None]:
    here = str(Path.cwd())
    sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if here in sys.path:
            sys.path.remove(here)


def _stated(spec: WorkloadSpec) -> StatedOptions:
    own = {key: value for key, value in spec.params.items() if key == "stated"}
    return read_options(spec.model_copy(update={"params": own}), StatedOptions)


def _own_params(spec: WorkloadSpec) -> Mapping[str, Any]:
    return {key: value for key, value in spec.params.items() if key != "stated"}


def _no_such_module(name: str, missing: str) -> WorkloadError:
    here = [path.stem for path in Path.cwd().glob("*.py")] + [p.parent.name for p in Path.cwd().glob("*/__init__.py")]
    return WorkloadError(
        f"there is no module `{missing}` for `{name}` (looked in {Path.cwd()} and in the installed packages)",
        hint=did_you_mean(missing, here) or "run from the directory that holds it, or install it",
    )


def _a(thing: Any) -> str:
    kind = type(thing).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


_FORMS = "return a callable without arguments, a list of (stage name, callable) pairs, or an object with `stages`"


def stages_of(answer: Any, name: str) -> tuple[tuple[Stage, ...], Callable[[], None]]:
    """The stages, and the function to call at the end.

    Raises:
        WorkloadError: It is none of the forms.
    """
    if inspect.iscoroutine(answer) or inspect.isgenerator(answer):
        answer.close()
        _refuse(name, f"is an async or generator function, so calling it gave {_kind(answer)} and ran nothing")
    close: Callable[[], None] = lambda: None  # noqa: E731  (the default of an attribute that most answers lack)
    if hasattr(answer, "stages"):
        close = getattr(answer, "close", close)
        answer = answer.stages
    elif callable(answer):
        return (Stage("compute", _without_argument(answer, name)),), close
    if isinstance(answer, str) or not isinstance(answer, Sequence):
        _refuse(name, f"returned {_kind(answer)}, which can't serve a request")
    if not answer:
        _refuse(name, "returned no stages")
    stages = tuple(_stage(entry, name) for entry in answer)
    names = [stage.name for stage in stages]
    if len(set(names)) < len(names):
        _refuse(name, f"returned two stages of one name ({', '.join(names)})")
    return stages, close


def _stage(entry: Any, name: str) -> Stage:
    if isinstance(entry, Stage):
        return entry
    if not (isinstance(entry, tuple | list) and len(entry) == 2 and isinstance(entry[0], str) and callable(entry[1])):
        _refuse(name, f"returned {_kind(entry)} where a (stage name, callable) pair was expected")
    stage_name, run = entry
    needed = _needed(run, name)
    if len(needed) > 1:
        _refuse(name, f"returned the stage `{stage_name}` that needs {len(needed)} arguments ({', '.join(needed)})")
    if _takes_one(run):
        return Stage(stage_name, run)
    return Stage(stage_name, lambda _: run())


def _without_argument(run: Callable[..., Any], name: str) -> Callable[[Any], Any]:
    needed = _needed(run, name)
    if needed:
        _refuse(name, f"returned {_kind(run)} that needs arguments ({', '.join(needed)}), but a request brings none")
    return lambda _: run()


def _needed(run: Callable[..., Any], name: str) -> list[str]:
    """The arguments it can't be called without."""
    if inspect.iscoroutinefunction(run) or inspect.isgeneratorfunction(run):
        _refuse(name, "returned an async or generator function: calling it would run nothing")
    return [
        p.name for p in _parameters(run) if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]


def _takes_one(run: Callable[..., Any]) -> bool:
    return any(
        p.kind is p.POSITIONAL_ONLY or (p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty)
        for p in _parameters(run)
    )


def _parameters(run: Callable[..., Any]) -> list[inspect.Parameter]:
    # A torch module takes *args, **kwargs and passes them to `forward`, whose signature counts.
    speaks = getattr(run, "forward", run)
    try:
        return list(inspect.signature(speaks).parameters.values())
    except (TypeError, ValueError):
        return []


def _refuse(name: str, what: str) -> NoReturn:
    raise WorkloadError(f"`{name}` {what}", hint=_FORMS)


def _kind(thing: Any) -> str:
    kind = type(thing).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}" if thing is not None else "None"


_OURS = str(Path(__file__).resolve().parents[2])
_LIBRARIES = tuple(sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))


def what_and_where(error: BaseException) -> str:
    """For example `KeyError: 'width' (model.py:12)`; the line is the last in the user's code, not a library's."""
    text = str(error).strip()
    first_line = text.splitlines()[0] if text else ""
    what = f"{type(error).__name__}: {first_line[:300]}" if first_line else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{what} ({_shown(error.filename)}:{error.lineno})"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(("<frozen", _OURS))]
    theirs = [f for f in frames if not f.filename.startswith(_LIBRARIES)] or frames
    return f"{what} ({_shown(theirs[-1].filename)}:{theirs[-1].lineno})" if theirs else what


def _shown(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename
