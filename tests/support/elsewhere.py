"""Interpreters with packages that don't agree with ours: clients that were written elsewhere."""

import importlib.util
import os
import sys

import pytest


def interpreter(module, variable="COTENANT_CLIENTS"):
    """An interpreter that has the module: this one, or the one that the variable names (`make test` sets it in CI)."""
    python = os.environ.get(variable)
    if python is None:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} isn't here; name an interpreter that has it in {variable}")
        python = sys.executable
    return python
