"""Progress of calls from scripts and notebooks: on stderr by default, nothing with ``quiet``."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Say = Callable[[str], None]
Verb = TypeVar("Verb", bound=Callable[..., Any])


def with_progress(verb: Verb) -> Verb:
    """Show a verb's events unless its caller passes a ``listener`` or ``quiet=True``."""

    @wraps(verb)
    def shown(*arguments: Any, **options: Any) -> Any:
        from cotenant.reporting.terminal import listening

        with listening(options.get("listener"), quiet=options.get("quiet", False)) as listener:
            return verb(*arguments, **{**options, "listener": listener})

    return cast("Verb", shown)


def saying(say: Say | None, *, quiet: bool) -> Say:
    """What gets sentences about progress: the caller's function, nothing, or stderr."""
    if say is not None:
        return say
    if quiet:
        return lambda _: None
    return lambda sentence: print(sentence, file=sys.stderr)  # noqa: T201 - for scripts, which have no console of ours
