"""What is installed only by an extra: torch and transformers (`models`), numba (`sim`)."""

import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any

from cotenant.errors import MissingExtra

EXTRAS = {"torch": "models", "transformers": "models", "numba": "sim"}
"""Packages, and the extra that brings each."""


@cache
def installed(package: str) -> bool:
    """Whether a package can be imported, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def require(package: str, what: str) -> None:
    """Refuse if a package of an extra is missing.

    Args:
        package: Its name.
        what: What needs it, as the start of a sentence.

    Raises:
        MissingExtra: It isn't installed.
    """
    if not installed(package):
        raise missing(package, what)


def missing(package: str, what: str) -> MissingExtra:
    """The refusal of what needs a package that isn't installed."""
    return MissingExtra(
        f"{what} needs {package}, which isn't installed", hint=f'pip install "cotenant[{EXTRAS[package]}]"'
    )


def compiled(*, inline: bool = False, numpy_errors: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function of numbers and arrays by numba; without numba it stays Python, and is about 100 times slower.

    Args:
        inline: Compile it into its callers.
        numpy_errors: Division by zero gives infinity instead of an exception.
    """
    if not installed("numba"):
        return lambda function: function
    import numba

    options: dict[str, Any] = {"cache": True, "nogil": True}
    if numpy_errors:
        options["error_model"] = "numpy"
    if inline:
        options["inline"] = "always"
    decorate: Callable[[Callable[..., Any]], Callable[..., Any]] = numba.njit(**options)
    return decorate
