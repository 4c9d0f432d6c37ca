"""Render pages as HTML from values. Every text in them is untrusted."""

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from cotenant import __version__
from cotenant.reporting.browser.choosing import Chosen, RunFilter
from cotenant.reporting.browser.comparing import Compared
from cotenant.reporting.browser.entry import STATES, Entry
from cotenant.reporting.browser.index import Listed
from cotenant.reporting.browser.progress import Progress
from cotenant.reporting.terminal.literal import literal

if TYPE_CHECKING:
    from jinja2 import Environment


def list_page(root: str, chosen: Chosen, choice: RunFilter, runs: Sequence[Listed], checked: frozenset[str]) -> str:
    """All runs, with filters."""
    entries = [listed.entry for listed in runs]
    return _render(
        "list.html.j2",
        root=root,
        chosen=chosen,
        choice=choice,
        studies=sorted({entry.study for entry in entries}),
        devices=sorted({entry.device for entry in entries}),
        states=[state for state in STATES if any(entry.state == state for entry in entries)],
        checked=checked,
    )


def rows_part(chosen: Chosen, choice: RunFilter, checked: frozenset[str]) -> str:
    """Only the list's table, to replace an older one."""
    return _render("rows.html.j2", chosen=chosen, choice=choice, checked=checked)


def progress_page(entry: Entry, progress: Progress) -> str:
    """A run in progress."""
    return _render("progress.html.j2", entry=entry, progress=progress)


def progress_part(entry: Entry, progress: Progress) -> str:
    """The part that changes."""
    return _render("standing.html.j2", entry=entry, progress=progress)


def compare_page(runs: Sequence[Entry], compared: Compared | None, refusal: str, hint: str) -> str:
    """Two runs, or a history of more; or why they can't be compared."""
    return _render("compare.html.j2", runs=runs, compared=compared, refusal=refusal, hint=hint)


def message_page(title: str, sentence: str, hint: str = "") -> str:
    """One sentence."""
    return _render("message.html.j2", title=title, sentence=sentence, hint=hint)


def links_part(runs: Sequence[Entry]) -> str:
    """Links above a report."""
    return _render("links.html.j2", runs=runs)


@cache
def style() -> str:
    """The report's style plus the style of these pages."""
    report = resources.files("cotenant.reporting.html") / "templates" / "report.css"
    return f"{report.read_text('utf-8')}\n{_own('view.css')}"


@cache
def script() -> str:
    """The pages' only script."""
    return _own("view.js")


@cache
def icon() -> str:
    """The icon, an SVG."""
    return _own("icon.svg")


def _own(name: str) -> str:
    return (resources.files("cotenant.reporting.browser") / "templates" / name).read_text("utf-8")


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(values)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("cotenant.reporting.browser", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # No character of a name may reorder or hide others.
        finalize=lambda value: literal(value) if type(value) is str else value,
    )
    environment.globals.update(version=__version__, meanings=STATES)
    return environment
