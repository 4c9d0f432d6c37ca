"""Select runs of the list by text, study, device and state, and paginate them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Self
from urllib.parse import urlencode

from cotenant.reporting.browser.entry import Entry
from cotenant.reporting.browser.index import Listed

PER_PAGE = 100


@dataclass(frozen=True, slots=True)
class RunFilter:
    """The reader's filter; empty means any."""

    q: str = ""
    study: str = ""
    device: str = ""
    state: str = ""
    page: int = 1

    @classmethod
    def of(cls, asked: Mapping[str, Sequence[str]]) -> Self:
        """Parse from a query, ignoring invalid values."""
        words = {name: asked[name][0] for name in ("q", "study", "device", "state") if asked.get(name)}
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

    def wants(self, entry: Entry) -> bool:
        """Whether every word occurs in the entry and every selected value is equal."""
        text = f"{entry.name} {entry.study} {entry.device} {entry.day} {entry.state} {entry.why}".casefold()
        return (
            all(word in text for word in self.q.casefold().split())
            and self.study in {"", entry.study}
            and self.device in {"", entry.device}
            and self.state in {"", entry.state}
        )


@dataclass(frozen=True, slots=True)
class Chosen:
    """One page of matching runs."""

    runs: Sequence[Listed]
    page: int
    pages: int
    found: int
    total: int


def choose(runs: Sequence[Listed], choice: RunFilter) -> Chosen:
    """The matching runs, in order."""
    wanted = [listed for listed in runs if choice.wants(listed.entry)]
    pages = max(1, -(-len(wanted) // PER_PAGE))
    page = min(choice.page, pages)
    return Chosen(wanted[(page - 1) * PER_PAGE : page * PER_PAGE], page, pages, len(wanted), len(runs))
