"""The library's log messages, on stderr."""

import logging

from cotenant.errors import CotenantError

LEVELS = ("debug", "info", "warning", "error")


def log_to_stderr(level: str) -> None:
    """Show messages of this level and above.

    Raises:
        CotenantError: There is no such level.
    """
    if level.lower() not in LEVELS:
        raise CotenantError(f"COTENANT_LOG={level} is not a log level", hint=f"use one of {', '.join(LEVELS)}")
    logger = logging.getLogger("cotenant")
    shown = logging.StreamHandler()
    shown.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S"))
    logger.handlers = [shown]  # once, however often a process calls the command line
    logger.setLevel(level.upper())
