"""Quote user text in files of other tools: a function per language; comments never contain names."""

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

from cotenant.tenancy import document


def shell_word(text: str) -> str:
    """A word of a shell command."""
    return shlex.quote(text)


def shell_words(words: Sequence[str]) -> str:
    """Words of a shell command."""
    return shlex.join(words)


def yaml_document(data: Any) -> str:
    """A YAML document, without anchors."""
    return document.write(data)


def yaml_documents(data: Sequence[Any]) -> str:
    """Several YAML documents in the same text."""
    return "".join(f"---\n{document.write(each)}" for each in data)


def json_text(data: Any) -> str:
    """A JSON file."""
    return json.dumps(data, indent=2) + "\n"


def cel_string(text: str) -> str:
    """A string of the Common Expression Language."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def markdown(text: str) -> str:
    """Text of a Markdown page or table."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&$])", r"\\\1", text)


def systemd_program(text: str) -> str:
    """The program of a command in a unit, where systemd expands `%` but no variables."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
