"""Where a server's program is, and which modules its Python has: servers often have an environment of their own."""

import importlib.util
import shutil
import sys
from pathlib import Path

_LONGEST_LINE = 4096


def find_program(name: str, path: str | None = None) -> str | None:
    """Its path: on `PATH`, or beside the interpreter that runs cotenant (an environment that is not activated)."""
    return shutil.which(name, path=path) or shutil.which(name, path=str(Path(sys.executable).parent))


def can_import(program: str, module: str) -> bool:
    """True if the Python that runs this program has the module."""
    python = _interpreter(Path(program))
    if python.parent == Path(sys.executable).parent:
        return importlib.util.find_spec(module) is not None
    return any(python.parent.parent.glob(f"lib/python3*/site-packages/{module}"))


def _interpreter(program: Path) -> Path:
    """From the first line of a script; a program of its own is its own interpreter."""
    try:
        with program.open("rb") as file:
            first = file.readline(_LONGEST_LINE)
    except OSError:
        return program
    words = first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []
    return Path(words[0]) if words and Path(words[0]).name.startswith("python") else program
