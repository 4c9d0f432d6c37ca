"""Fronts of packages: the names that other packages import, each loaded when it is used.

A front lists its names once, as imports that type checkers read::

    if TYPE_CHECKING:
        from cotenant.store.database.additions import Addition, Rejected
    else:
        __getattr__, __dir__ = front(__name__, __file__)
"""

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

_IMPORTS = re.compile(r"^    from (cotenant\.\S+) import (?:\(([^)]*)\)|(.+))$", re.MULTILINE)
_NAME = re.compile(r"(\w+) *(?:,|$)", re.MULTILINE)


def listed(file: str) -> dict[str, str]:
    """The module that each name of this front comes from, in the order of the list."""
    source = Path(file).read_text(encoding="utf-8")
    return {name: home for home, many, single in _IMPORTS.findall(source) for name in _NAME.findall(many or single)}


def front(package: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package with this front; nothing is read before a name is asked for."""
    homes = cache(lambda: listed(file))

    def load(name: str) -> object:
        if name.startswith("__") or name not in homes():
            raise AttributeError(f"module '{package}' has no attribute {name!r}")
        return getattr(import_module(homes()[name]), name)

    return load, lambda: sorted(homes())
