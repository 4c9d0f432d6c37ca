"""How far to trust a simulated figure: the validated error of its kind, which reports show beside it.

The errors are written by `make validate`, from measured data, and are not typed by hand.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

Kind = Literal["solo", "processes", "mps", "mig", "training", "memory", "power", "fleet"]
"""What a figure comes from: a workload alone, a way to share, training side by side, memory needed, power and clocks,
differences between GPUs of one kind."""
KINDS: tuple[Kind, ...] = get_args(Kind)
FILE = Path(__file__).with_name("validated.json")


@dataclass(frozen=True, slots=True)
class ValidatedError:
    """What measured data say about one kind of figure."""

    kind: Kind
    measure: str
    """`mean abs. error of slowdown`."""
    value: float
    unit: str
    n: int
    """Held-out rows behind it."""
    data_set: str
    what: str

    @property
    def sentence(self) -> str:
        """`mean abs. error of slowdown: 7.1 % (parvagpu, 412 held-out rows)`."""
        return f"{self.measure}: {self.value:.2g} {self.unit}".rstrip() + f" ({self.data_set}, {self.n} held-out rows)"


@cache
def validated_errors() -> Mapping[Kind, tuple[ValidatedError, ...]]:
    """Every validated error by its kind; a kind that was never validated has none."""
    found = [ValidatedError(**entry) for entry in json.loads(FILE.read_text(encoding="utf-8"))]
    return {kind: tuple(error for error in found if error.kind == kind) for kind in KINDS}


def as_json(errors: tuple[ValidatedError, ...]) -> str:
    """The file's text."""
    entries = [{name: getattr(error, name) for name in ValidatedError.__slots__} for error in errors]
    return json.dumps(entries, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
