"""Render pages as HTML from values. Every text in them is untrusted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode

from cotenant import __version__
from cotenant.reporting.browser.entry import STATES, RunEntry
from cotenant.reporting.browser.index import ListedRun
from cotenant.reporting.html.assets import environment

if TYPE_CHECKING:
    from jinja2 import Environment


# --- select runs of the list by text, study, device and state, and paginate them

PER_PAGE = 100
ORDERS: Mapping[str, Callable[[ListedRun], Any]] = {
    "study": lambda listed: listed.entry.study,
    "device": lambda listed: listed.entry.device,
    "state": lambda listed: listed.entry.state,
    "trials": lambda listed: -len(listed.entry.trials),
    "work": lambda listed: -max(listed.answer.works, default=0.0) if listed.answer else 0.0,
}
"""Ways to sort the list besides newest first; runs that are equal stay newest first."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """The reader's filter; empty means any."""

    q: str = ""
    study: str = ""
    device: str = ""
    state: str = ""
    sort: str = ""
    page: int = 1

    @classmethod
    def of(cls, asked: Mapping[str, Sequence[str]]) -> Self:
        """Parse from a query, ignoring invalid values."""
        words = {name: asked[name][0] for name in ("q", "study", "device", "state", "sort") if asked.get(name)}
        if words.get("sort") not in ORDERS:
            words.pop("sort", None)
        page = (asked.get("page") or ["1"])[0]
        return cls(**words, page=max(1, int(page)) if page.isascii() and page.isdecimal() and len(page) < 7 else 1)

    def address(self, page: int | None = None) -> str:
        """The same as a query string, without `?`."""
        asked = self if page is None else replace(self, page=page)
        return urlencode({name: value for name, value in asdict(asked).items() if value not in {"", 1}})

    @property
    def narrows(self) -> bool:
        """Whether it can exclude runs."""
        return bool(self.q or self.study or self.device or self.state)

    def wants(self, entry: RunEntry) -> bool:
        """Whether every word occurs in the entry and every selected value is equal."""
        text = f"{entry.name} {entry.study} {entry.device} {entry.day} {entry.state} {entry.why}".casefold()
        return (
            all(word in text for word in self.q.casefold().split())
            and self.study in {"", entry.study}
            and self.device in {"", entry.device}
            and self.state in {"", entry.state}
        )


@dataclass(frozen=True, slots=True)
class ChosenRuns:
    """One page of matching runs."""

    runs: Sequence[ListedRun]
    page: int
    pages: int
    found: int
    total: int


def choose(runs: Sequence[ListedRun], choice: RunFilter) -> ChosenRuns:
    """The matching runs, in order."""
    matching = [listed for listed in runs if choice.wants(listed.entry)]
    if choice.sort:
        matching.sort(key=ORDERS[choice.sort])
    pages = max(1, -(-len(matching) // PER_PAGE))
    page = min(choice.page, pages)
    return ChosenRuns(matching[(page - 1) * PER_PAGE : page * PER_PAGE], page, pages, len(matching), len(runs))


def list_page(
    root: str, chosen: ChosenRuns, choice: RunFilter, runs: Sequence[ListedRun], checked: frozenset[str]
) -> str:
    """All runs, with filters."""
    entries = [listed.entry for listed in runs]
    return render(
        "list.html.j2",
        root=root,
        chosen=chosen,
        choice=choice,
        studies=sorted({entry.study for entry in entries}),
        devices=sorted({entry.device for entry in entries}),
        states=[state for state in STATES if any(entry.state == state for entry in entries)],
        checked=checked,
        orders=tuple(ORDERS),
    )


@cache
def style() -> str:
    """The report's style plus the style of these pages."""
    report = resources.files("cotenant.reporting.html") / "templates" / "report.css"
    return f"{report.read_text('utf-8')}\n{own('view.css')}"


@cache
def own(name: str) -> str:
    """A file of these pages."""
    return (resources.files("cotenant.reporting.browser") / "templates" / name).read_text("utf-8")


def render(template: str, **values: Any) -> str:
    """A page, or the part of one that changes."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> "Environment":
    made = environment("cotenant.reporting.browser")
    made.globals.update(version=__version__, meanings=STATES)
    return made


def live_page() -> str:
    """The live page of a server: it contains no data, and polls `/status` once a second."""
    template = resources.files("cotenant.reporting.browser") / "templates" / "live.html"
    return template.read_text("utf-8").replace("{{ css }}", style())
