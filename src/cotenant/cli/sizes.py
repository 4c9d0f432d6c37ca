"""Sizes of memory on the command line: `4GB`, `512MiB`."""

import re
from typing import Any

import click

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


class Memory(click.ParamType):
    """A number of bytes with its unit."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """In bytes."""
        if isinstance(value, int):
            return value
        match = _FORM.fullmatch(str(value).strip().lower())
        if match is None or match[2] not in _UNITS or float(match[1]) == 0:
            self.fail(f"{value!r} is no size of memory; write e.g. 4GB or 512MiB", param, ctx)
        return int(float(match[1]) * _UNITS[match[2]])


MEMORY = Memory()
