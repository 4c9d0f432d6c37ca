"""Shared parts of pages: template environment, styles, scripts, and the policy that allows only those."""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from cotenant.analyse.tabular import plain
from cotenant.reporting.figures.figure import Row
from cotenant.text import literal

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


VENDORED = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")


def environment(package: str = "cotenant.reporting.html") -> "Environment":
    """Templates of a package, with autoescaping and strict undefined values."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader(package, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Printed text is untrusted: no character of it may reorder or hide others.
        finalize=lambda value: literal(value, keep="\n") if type(value) is str else value,
    )
    made.filters["with_code"] = with_code
    return made


def with_code(text: str) -> "Markup":
    """Escaped text with backquoted `commands` set as code."""
    from markupsafe import Markup

    parts = [Markup("<code>%s</code>") % part if number % 2 else Markup("%s") % part
             for number, part in enumerate(literal(text).split("`"))]  # fmt: skip
    return Markup("").join(parts)


def scripts() -> list[str]:
    """The scripts of a page with figures, in execution order."""
    return [*map(_vendored, VENDORED), resource("templates", "report.js")]


def policy(texts: list[str]) -> str:
    """A Content-Security-Policy that allows only these scripts and loads nothing."""
    return (
        f"default-src 'none'; script-src {' '.join(map(script_hash, texts))}; "
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )


def markup(text: str) -> Any:
    """Trusted text that is already HTML, CSS or JavaScript."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 - only files of this package, hashed or escaped JSON


def resource(folder: str, name: str) -> str:
    """A file of this package, as text."""
    return (resources.files("cotenant.reporting.html") / folder / name).read_text(encoding="utf-8").strip()


@cache
def _vendored(name: str) -> str:
    """A library's script; a closing tag inside it would end the element."""
    return resource("vendor", name).replace("</script", "<\\/script")


# --- data inside a page: JSON that can't end its element, and hashes of allowed scripts

_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
"""In JSON these only occur inside strings, where an escape is equivalent."""


def embedded_json(data: Any) -> str:
    """JSON for a script element of type application/json, without `<`, `>`, `&` or line separators."""
    text = json.dumps(plain(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES).encode("utf-8", "backslashreplace").decode()


def columnar(rows: Sequence[Row]) -> dict[str, Any]:
    """Rows in columns, with the distinct texts of a column stored once in `words` and referenced by index.

    Numbers keep seven digits, more than a figure can show.
    """
    columns = list(dict.fromkeys(key for row in rows for key in row))
    words = {column: many for column in columns if (many := _words(row.get(column) for row in rows))}
    places: dict[str, dict[Any, int]] = {
        column: {word: number for number, word in enumerate(many)} for column, many in words.items()
    }
    return {
        "columns": columns,
        "words": words,
        "rows": [
            [places[column].get(row.get(column)) if column in places else _short(row.get(column)) for column in columns]
            for row in rows
        ],
    }


def _words(values: Iterable[Any]) -> list[str]:
    """The distinct texts of a column in order of first use; None if it holds anything but text."""
    distinct = list(dict.fromkeys(value for value in values if value is not None))
    return distinct if all(isinstance(name, str) for name in distinct) else []


def _short(value: Any) -> Any:
    return float(f"{value:.7g}") if isinstance(value, float) else value


def script_hash(script: str) -> str:
    """A script's hash for a Content-Security-Policy."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"
