"""`cotenant run ...` as a line to copy: the measurement that settles an open question, and the time it is given."""

import json
import math
import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from cotenant.tenancy.ways import EQUAL

REAL_DEVICE = "cuda:0"
"""Where what a simulated GPU leaves open is measured."""
FEWEST_BLOCKS = 3
_ROOM = 2
"""A run has more time than its trials take: warm-up and settling aren't known beforehand."""
_YAML_WORDS = {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}


def run_command(study: str, settings: Iterable[str], *, device: str | None = None) -> str:
    """`cotenant run FILE --device cuda:0 --set 'mixes=[{groups: {a-b: [a, b]}}]' --set blocks=3`.

    Args:
        study: A file, or a built-in study's name.
        settings: `KEY=VALUE`, the values as in a file.
        device: Overrides the study's.
    """
    words = [word for setting in settings for word in ("--set", setting)]
    return shlex.join(["cotenant", "run", study, *(() if device is None else ("--device", device)), *words])


def mixes_setting(groups: Collection[Sequence[str]], *others: str) -> str:
    """`mixes=[solo, {groups: {a-b: [a, b]}}]`; copies of a single tenant are its copies.

    Args:
        groups: Mixes by their tenants.
        others: Other entries: `solo`.
    """
    found = list(others)
    found += [f"{{copies: {{{plain(group[0])}: [{len(group)}]}}}}" for group in groups if len(set(group)) == 1]
    named = [f"{_label(group)}: [{', '.join(map(plain, group))}]" for group in groups if len(set(group)) > 1]
    if named:
        found.append(f"{{groups: {{{', '.join(named)}}}}}")
    return f"mixes=[{', '.join(found)}]"


def _label(group: Sequence[str]) -> str:
    """A name that no parser takes for a list of members."""
    return plain(re.sub(r"[^\w.-]+", "-", "-".join(group)))


def ways_setting(sharings: Iterable[str]) -> str:
    """`sharing=[processes, {mps: [60, 40]}]` of `processes` and `mps[60, 40]`."""
    return f"sharing=[{', '.join(map(_way, sharings))}]"


def _way(sharing: str) -> str:
    mode, _, shares = sharing.removesuffix("]").partition("[")
    return f"{{{mode}: {EQUAL if shares == EQUAL else f'[{shares}]'}}}" if shares else mode


class RunLength(NamedTuple):
    """How much a run measures, and the time it is given for that."""

    trials: int
    """Of a block."""
    blocks: int
    window_s: float

    @property
    def minutes(self) -> int:
        """At most."""
        return max(1, math.ceil(_ROOM * self.trials * self.blocks * self.window_s / 60))

    @property
    def settings(self) -> list[str]:
        """`blocks=3` and `budget=2min`."""
        return [f"blocks={self.blocks}", f"budget={self.minutes}min"]


def plain(name: str) -> str:
    """A name in YAML."""
    return name if re.fullmatch(r"[A-Za-z][\w.+-]*", name) and name.lower() not in _YAML_WORDS else json.dumps(name)
