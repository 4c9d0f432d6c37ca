"""Handles: what verbs return, with what can be done next as methods. `Plan` and `Prediction` are beside their verbs."""

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from cotenant.analyse.result import Result
from cotenant.analyse.tabular import plain
from cotenant.paths import AnyPath

if TYPE_CHECKING:
    from cotenant.analyse.comparison import History, PairComparison
    from cotenant.analyse.explanation import Explanation
    from cotenant.analyse.judged_promises import PlanAndReality
    from cotenant.analyse.neighbours import WatchedExplanation
    from cotenant.analyse.result import SideBySide
    from cotenant.api.report import Written
    from cotenant.store.export import Format
    from cotenant.store.query import Table
    from cotenant.store.verifying import Verified

Handle = TypeVar("Handle", bound=type)
LONGEST = 100
"""Characters of a sentence in a `repr`."""


def public(handle: Handle) -> Handle:
    """Let a class be of `cotenant`, where users find it; pickle finds it there as well."""
    handle.__module__ = "cotenant"
    return handle


def one_line(name: str, what: str, sentence: str = "") -> str:
    """`<cotenant.Run runs/quick/...: sentence>`."""
    words = " ".join(sentence.split())
    words = words if len(words) <= LONGEST else words[: LONGEST - 3].rsplit(" ", 1)[0] + "..."
    return f"<cotenant.{name} {what}{f': {words}' if words else ''}>"


def paragraphs(sentences: "list[str]") -> str:
    """Sentences as HTML, for notebooks."""
    return "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)


@public
class Run(Result):
    """One run, or several read together: the answer, every number, and what to do with them.

    `run.answer` recommends who shares and how; `run.mixes` and `run.tenants` hold the numbers, each with its interval;
    `run.to_pandas()` is a row for each tenant of each mix.
    """

    @classmethod
    def of(cls, result: Result) -> Self:
        """A result as a handle; nothing is computed again."""
        made = cls.__new__(cls)
        made.__dict__.update(result.__dict__)
        return made

    def report(
        self, *, out: AnyPath | None = None, markdown: AnyPath | None = None, figures: AnyPath | None = None
    ) -> "Written":
        """Write a self-contained HTML file, optionally with Markdown and figures; see `cotenant.report`."""
        from cotenant.api.report import report

        return report(self.folders, out=out, markdown=markdown, figures=figures)

    def explain(self) -> "Explanation | WatchedExplanation":
        """What limits each tenant and what the mixes compete for; see `cotenant.explain`."""
        from cotenant.api.explain import explain

        return explain(self.folders)

    def compare(self, before: "AnyPath | Run", *, margin: float = 0.03) -> "Comparison":
        """Faster or slower than an earlier run, given by its folder, saved name or handle; see `cotenant.compare`."""
        from cotenant.api.compare import compare

        earlier = before.folder if isinstance(before, Run) else before
        return compare([str(earlier), self.folder], margin=margin)

    def sql(self, query: str, *, limit_s: float = 60.0) -> "Table":
        """Run a SELECT over the records; see `cotenant.sql`."""
        from cotenant.api.records import sql

        return sql(query, self.folders, limit_s=limit_s)

    def export(self, table: str, destination: AnyPath, format: "Format | None" = None) -> None:  # noqa: A002 - as `export`
        """Write a table of the records as CSV, JSON or Parquet; see `cotenant.export`."""
        from cotenant.api.records import export

        export(self.folders, table, destination, format)

    def verify(self) -> "tuple[Verified, ...]":
        """Check that every file is unchanged since it was written; see `cotenant.verify`."""
        from cotenant.api.records import verify

        return verify(self.folders)

    def __repr__(self) -> str:
        opening = self.opening
        return one_line("Run", " ".join(map(str, self.folders)), opening[0] if opening else "")

    def _repr_html_(self) -> str:
        return paragraphs(self.opening) + super()._repr_html_()


@public
@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """What `compare` says: of two runs, of a history, of a study on several devices, or of a plan and its runs."""

    kind: Literal["pair", "history", "devices", "plan"]
    details: "PairComparison | History | SideBySide | PlanAndReality"

    @property
    def regression(self) -> bool:
        """Something is slower and the clock does not explain it; of a plan: an objective was missed."""
        return bool(getattr(self.details, "regression", False) or getattr(self.details, "missed", False))

    @property
    def withheld(self) -> str | None:
        """Why there is no verdict yet, if so."""
        if self.kind == "plan" and not self.regression and not getattr(self.details, "kept", True):
            return "some objectives can't be told yet"
        reason = getattr(self.details, "withheld", None)
        return None if reason is None else str(reason)

    def sentences(self) -> list[str]:
        """The outcome, the most important sentence first."""
        from cotenant.analyse.comparison import History, PairComparison, comparison_sentences, history_sentences
        from cotenant.analyse.result import SideBySide

        match self.details:
            case PairComparison():
                return list(comparison_sentences(self.details))
            case History():
                return list(history_sentences(self.details))
            case SideBySide():
                return list(self.details.said)
        return [f"{row.tenant}, {row.objective}: {row.verdict}." for row in self.details.rows]

    def markdown(self, *, explain: bool = False) -> str:
        """For a pull request; with ``explain`` the reason of every row of two runs."""
        from cotenant.analyse.comparison import History, PairComparison
        from cotenant.reporting.results import compared_markdown

        match self.details:
            case PairComparison() | History():
                return compared_markdown(self.details, explain=explain)
        return "\n".join(f"- {sentence}" for sentence in self.sentences()) + "\n"

    def to_json(self) -> Any:
        """As `compare --json` prints it."""
        return plain(self.details)

    def __repr__(self) -> str:
        return one_line("Comparison", self.kind, next(iter(self.sentences()), ""))

    def _repr_html_(self) -> str:
        return paragraphs(self.sentences())
