"""`cotenant` that kills itself: argument 1 says when, the rest is the command line.

`step:N` dies at the Nth call that touches the disk or its tenants, `after:S` dies after S seconds
wherever it is, `never` does not.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

STEPS = ((os, "fsync"), (os, "mkdir"), (os, "rename"), (os, "replace"), (os, "killpg"), (subprocess, "Popen"))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(when: str, steps: Sequence[tuple[Any, str]] = STEPS) -> Callable[[], int]:
    """Returns the number of steps so far."""
    kind, _, amount = when.partition(":")
    seen = 0
    if kind == "after":
        timer = threading.Timer(float(amount), die)
        timer.daemon = True
        timer.start()
    elif kind == "step":
        deadly_one = int(amount)

        def deadly(call: Callable[..., Any]) -> Callable[..., Any]:
            def wrapped(*args: Any, **kwargs: Any) -> Any:
                nonlocal seen
                seen += 1
                if seen == deadly_one:
                    die()
                return call(*args, **kwargs)

            return wrapped

        for module, name in steps:
            setattr(module, name, deadly(getattr(module, name)))
    return lambda: seen


if __name__ == "__main__":
    from cotenant.cli.main import main
    from cotenant.measure import live  # noqa: F401 - the imports of a run are not what is tested

    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background inherit an ignored SIGINT
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and those of `nohup` an ignored SIGHUP
    arm(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
