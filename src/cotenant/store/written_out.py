"""Escape characters of a text file that a terminal would interpret."""

import re
from collections.abc import Callable
from pathlib import Path

_ACTING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Controls that move the cursor or change colours, and marks that reorder or hide text; not line ends."""
_AT_ONCE = 1 << 20

Form = Callable[[re.Match[str]], str]


def _in_csv(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _in_json(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"  # the same character to a parser


FORMS: dict[str, Form] = {"csv": _in_csv, "json": _in_json}


def rewrite(file: Path, form: Form) -> None:
    """Escape such characters of a file; a file without any is left unchanged. Raises OSError."""
    with file.open(encoding="utf-8", errors="replace", newline="") as source:
        if not any(_ACTING.search(line) for lines in iter(lambda: source.readlines(_AT_ONCE), []) for line in lines):
            return
        source.seek(0)
        draft = file.with_name(f"{file.name}.new")
        with draft.open("w", encoding="utf-8", newline="") as target:
            for lines in iter(lambda: source.readlines(_AT_ONCE), []):
                target.writelines(_ACTING.sub(form, line) for line in lines)
    draft.replace(file)
