"""Prometheus' text format: the samples of a page."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

_LABELS = r'\{((?:[^"}\n]|"(?:[^"\\\n]|\\.)*")*)\}'
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ANY = r"[A-Za-z_:][A-Za-z0-9_:]*"
_ESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


@dataclass(frozen=True, slots=True)
class Exposed:
    """One sample of a page."""

    metric: str
    labels: Mapping[str, str]
    value: float


def exposed(text: str, metrics: Iterable[str] | None = None) -> Iterator[Exposed]:
    """The samples of a page whose values are numbers.

    Args:
        text: The page.
        metrics: Only of these; the others are skipped without being parsed, since pages can have thousands.
    """
    for metric, labels, value in _form(None if metrics is None else tuple(sorted(set(metrics)))).findall(text):
        try:
            number = float(value)
        except ValueError:
            continue
        if number == number:  # NaN: never set  # noqa: PLR0124
            yield Exposed(metric, read_labels(labels), number)


def read_labels(text: str) -> dict[str, str]:
    """`a="1",b="2"` as a dictionary."""
    return {name: _plain(value) for name, value in _LABEL.findall(text)} if text else {}


def _plain(value: str) -> str:
    return re.sub(r"\\[\\\"n]", lambda found: _ESCAPED[found[0]], value) if "\\" in value else value


@lru_cache(maxsize=32)
def _form(metrics: tuple[str, ...] | None) -> re.Pattern[str]:
    names = _ANY if metrics is None else "|".join(map(re.escape, metrics)) or r"(?!)"
    return re.compile(rf"^({names})(?:{_LABELS})?[ \t]+(\S+)", re.MULTILINE)
