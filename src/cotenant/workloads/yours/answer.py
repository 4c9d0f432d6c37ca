"""Turns a user function's return value into stages: a callable, named stages, or an object with them."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from cotenant.errors import WorkloadError
from cotenant.workloads.protocol import Stage

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
