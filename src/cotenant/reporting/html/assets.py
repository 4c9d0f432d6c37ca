"""Shared parts of pages: template environment, styles, scripts, and the policy that allows only those."""

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from cotenant.reporting.html.embedding import script_hash
from cotenant.reporting.terminal.literal import literal

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

VENDORED = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")


def environment() -> "Environment":
    """Templates of this package, with autoescaping and strict undefined values."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("cotenant.reporting.html", "templates"),
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

    parts = [Markup("<code>%s</code>") % part if place % 2 else Markup("%s") % part
             for place, part in enumerate(literal(text).split("`"))]  # fmt: skip
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
