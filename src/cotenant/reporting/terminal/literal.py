"""Names come from untrusted files: on a terminal they are text, never control sequences."""

import unicodedata

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that move the cursor, reorder text or are invisible."""


def literal(text: str, *, keep: str = "") -> str:
    r"""The text with every control character escaped (`\x1b`), except those in ``keep``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char in keep or unicodedata.category(char) not in _INVISIBLE else _written_out(char) for char in text
    )


def _written_out(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
