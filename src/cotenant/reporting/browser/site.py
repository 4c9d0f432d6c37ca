"""Map addresses to answers, without sockets. Runs are only ever looked up by their key in the list."""

import html
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cotenant.errors import CotenantError
from cotenant.reporting.browser import pages
from cotenant.reporting.browser.entry import RunEntry, Stamp
from cotenant.reporting.browser.index import Index, ListedRun, quietly
from cotenant.reporting.browser.pages import RunFilter, choose, render
from cotenant.reporting.browser.progress import progress_of
from cotenant.reporting.elements.html import fragment
from cotenant.reporting.results.compared import compared_elements
from cotenant.store.compared import compared_runs

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'"
)
MOST_CHOSEN = 50
"""Maximum runs in one comparison."""
MOST_FIELDS = 200

Asked = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Response:
    """A response."""

    body: str
    kind: str = "text/html"
    status: HTTPStatus = HTTPStatus.OK
    policy: str = POLICY


class NoSuchPage(Exception):
    """An address without a page; the message says why."""


class Site:
    """The pages of one folder of runs."""

    def __init__(self, index: Index) -> None:
        self._index, self._reports = index, ReportCache()
        self._idle, self._at_work, self._closed = threading.Condition(), 0, False
        self._fixed: Mapping[str, Callable[[Asked], Response]] = {
            "/": self._list,
            "/rows": self._rows,
            "/runs.json": self._runs_json,
            "/compare": self._comparison,
            "/report": self._side_by_side,
            "/style.css": lambda _: Response(pages.style(), "text/css"),
            "/script.js": lambda _: Response(pages.own("view.js"), "text/javascript"),
            "/favicon.ico": lambda _: Response(pages.own("icon.svg"), "image/svg+xml"),
        }
        self._of_a_run: Mapping[str, Callable[[ListedRun], Response]] = {
            "": self._report,
            "progress": self._progress,
            "progress.json": lambda run: _json(progress_of(run).to_json()),
            "standing": lambda run: Response(render("standing.html.j2", entry=run.entry, progress=progress_of(run))),
        }

    def answer(self, path: str, query: str) -> Response:
        """Answer a read request; problems with a run become a page."""
        with self._idle:
            if self._closed:
                return _message(HTTPStatus.SERVICE_UNAVAILABLE, "Ended", "This server is shutting down.")
            self._at_work += 1
        try:
            return self._answered(path, query)
        finally:
            with self._idle:
                self._at_work -= 1
                self._idle.notify_all()

    def close(self) -> None:
        """Refuse new requests and wait for answers in progress."""
        with self._idle:
            self._closed = True
            self._idle.wait_for(lambda: self._at_work == 0)

    def _answered(self, path: str, query: str) -> Response:
        try:
            return self._find(path)(_asked(query))
        except NoSuchPage as problem:
            return _message(HTTPStatus.NOT_FOUND, "Nothing here", str(problem))
        except CotenantError as problem:
            return _message(HTTPStatus.UNPROCESSABLE_ENTITY, "Not readable", problem.message, problem.hint or "")

    def _find(self, path: str) -> Callable[[Asked], Response]:
        if path in self._fixed:
            return self._fixed[path]
        match path.split("/"):
            case ["", "run", key, *rest] if (part := "/".join(rest)) in self._of_a_run:
                run_page = self._of_a_run[part]
                return lambda _: run_page(self._listed(key))
        raise NoSuchPage("There is no such page.")

    def _listed(self, key: str) -> ListedRun:
        listed = self._index.find(key)
        if listed is None:
            raise NoSuchPage("There is no such run in this folder; it may have been moved or removed.")
        return listed

    def _list(self, asked: Asked) -> Response:
        runs, choice = self._index.all(), RunFilter.of(asked)
        chosen = choose(runs, choice)
        return Response(pages.list_page(str(self._index.root), chosen, choice, runs, frozenset(asked.get("run", ()))))

    def _rows(self, asked: Asked) -> Response:
        choice = RunFilter.of(asked)
        chosen, checked = choose(self._index.all(), choice), frozenset(asked.get("run", ()))
        return Response(render("rows.html.j2", chosen=chosen, choice=choice, checked=checked))

    def _runs_json(self, asked: Asked) -> Response:
        chosen = choose(self._index.all(), RunFilter.of(asked))
        return _json({"total": chosen.total, "found": chosen.found, "runs": [_plain(run) for run in chosen.runs]})

    def _report(self, run: ListedRun) -> Response:
        return self._made_report([run.entry])

    def _progress(self, run: ListedRun) -> Response:
        return Response(render("progress.html.j2", entry=run.entry, progress=progress_of(run)))

    def _side_by_side(self, asked: Asked) -> Response:
        return self._made_report(self._several(asked))

    def _made_report(self, runs: Sequence[RunEntry]) -> Response:
        report = self._reports.report(runs)
        return Response(report, policy=policy_of(report))

    def _comparison(self, asked: Asked) -> Response:
        runs = self._several(asked)
        if len(runs) < 2:
            raise NoSuchPage("Choose two runs or more in the list, then compare.")
        try:
            compared = fragment(compared_elements(compared_runs([run.path for run in runs]), explain=True, folded=True))
            refusal = hint = ""
        except CotenantError as problem:
            compared, refusal, hint = None, problem.message, problem.hint or ""
        return Response(render("compare.html.j2", runs=runs, compared=compared, refusal=refusal, hint=hint))

    def _several(self, asked: Asked) -> list[RunEntry]:
        """The selected runs, oldest first: before, now."""
        keys = list(dict.fromkeys(asked.get("run", ())))
        if not keys or len(keys) > MOST_CHOSEN:
            raise NoSuchPage(f"Choose between 1 and {MOST_CHOSEN} runs in the list.")
        return sorted((self._listed(key).entry for key in keys), key=lambda entry: (entry.started_utc, entry.name))


def _asked(query: str) -> Asked:
    try:
        return parse_qs(query, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise NoSuchPage("This address names too many runs.") from None


def _message(status: HTTPStatus, title: str, sentence: str, hint: str = "") -> Response:
    return Response(render("message.html.j2", title=title, sentence=sentence, hint=hint), status=status)


def _json(data: Any) -> Response:
    return Response(json.dumps(data, allow_nan=False), "application/json")


def _plain(listed: ListedRun) -> dict[str, Any]:
    entry = listed.entry
    return {
        "key": entry.key,
        "name": entry.name,
        "study": entry.study,
        "device": entry.device,
        "simulated": entry.simulated,
        "started_utc": entry.started_utc,
        "state": entry.state,
        "why": entry.why,
        "trials": len(entry.trials),
        "verdicts": dict(listed.tally.verdicts) if listed.tally else None,
        "answer": listed.answer.sentence if listed.answer else None,
    }


def site_over(root: Path) -> tuple[Site, Index]:
    """The pages of a folder, and the index behind them."""
    index = Index(root)
    site = Site(index)
    site.answer("/", "")  # reads every manifest and compiles the templates, so that the first page is fast
    return site, index


# --- reports of runs, made on demand and cached until the run changes

MOST_KEPT = 8
"""Cached pages, of a megabyte or two each."""

_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


class ReportCache:
    """The most recent reports. Thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, tuple[tuple[Path, Stamp], ...]], str] = OrderedDict()
        self._lock = threading.Lock()

    def report(self, runs: Sequence[RunEntry]) -> str:
        """The report of one or several runs, with navigation links on top.

        Raises:
            RunFolderError: A run is damaged.
        """
        links = render("links.html.j2", runs=runs)
        key = links, tuple((run.path, run.stamp) for run in runs)
        with self._lock:  # one at a time: two long runs might not fit into memory
            if key not in self._kept:
                self._kept[key] = _made([run.path for run in runs], links)
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
            return self._kept[key]


def _made(paths: Sequence[Path], links: str) -> str:
    from cotenant.errors import WatchedRuns
    from cotenant.reporting.figures.every import figures
    from cotenant.reporting.figures.material import gather
    from cotenant.reporting.html.page import run_page
    from cotenant.reporting.results.watched import watched_page
    from cotenant.store.watched import read_watched

    with quietly():
        try:
            material = gather(paths)
        except WatchedRuns:
            return watched_page(read_watched(paths), links=links)
    return run_page(material, figures(material), links=links)


def policy_of(report: str) -> str:
    """The Content-Security-Policy in a report, with the hashes of its scripts."""
    policy = _POLICY.search(report)
    assert policy is not None, "every report states its policy"
    return html.unescape(policy[1])
