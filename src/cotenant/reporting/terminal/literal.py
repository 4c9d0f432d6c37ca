"""Names come from files that anybody may have written: on a terminal they are text and never instructions."""

import unicodedata

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that move the cursor, reorder text or show nothing."""


def literal(text: str, *, keep: str = "") -> str:
    r"""The text with every control character written out (`\x1b`), except those in ``keep``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char in keep or unicodedata.category(char) not in _INVISIBLE else _written_out(char) for char in text
    )


def _written_out(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
