"""Interpreters with packages incompatible with ours, for third-party clients."""

import importlib.util
import os
import sys

import pytest


def interpreter(module, variable="COTENANT_CLIENTS"):
    """An interpreter that has the module: this one, or the one named by the variable (`make test` sets it in CI)."""
    python = os.environ.get(variable)
    if python is None:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} isn't here; name an interpreter that has it in {variable}")
        python = sys.executable
    return python
