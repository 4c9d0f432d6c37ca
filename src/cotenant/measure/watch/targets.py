"""What to watch: from the words of the command line, or what runs here, to readers."""

import http.client
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from cotenant.analyse.neighbours import Grant
from cotenant.clients.address import LOCAL, Address, ask, read_address
from cotenant.clients.exposition import LIMIT_S, PATH, exposed
from cotenant.clients.published import KNOWN_SOFTWARE, Published, Software, read_published
from cotenant.errors import CotenantError, WatchError, WorkloadError
from cotenant.measure.watch.occupants import GpuReader, ProcessReader, family
from cotenant.measure.watch.track import Track
from cotenant.workloads.servers import listening

LARGEST_PAGE = 16 << 20
OUT_OF_REACH = 3
"""Failed readings in a row after which a server is reported as gone."""


class PageReader:
    """One server's page."""

    def __init__(
        self, address: Address, alias: str | None, histograms: Sequence[Software], new_track: Callable[..., Track]
    ) -> None:
        self.address = address
        self._alias = alias
        self._named, self._known = histograms, (*histograms, *KNOWN_SOFTWARE)
        self._metrics = frozenset[str]().union(*(software.metrics for software in self._known))
        self._new_track = new_track
        self.tracks: dict[str, Track] = {}
        """By the tenant's name on the page."""
        self.notes: list[str] = []
        self._paused = False
        self._reading = threading.Lock()
        self._failed = 0
        self._shares: dict[str, tuple[float, float]] = {}

    def read(self) -> None:
        """One reading. A server that doesn't answer is noted, and asked again next time."""
        with self._reading:
            if self._paused:
                for track in self.tracks.values():
                    track.repeat(time.time())
            else:
                self._read()

    def pause(self) -> None:
        """Its server is about to be stopped: read it once more; until `go_on` nothing is added to its totals."""
        with self._reading:  # a page that is under way would wait for the stopped server
            self._read()
            self._paused = True

    def go_on(self) -> None:
        """Its server runs again."""
        with self._reading:
            self._paused = False

    def _read(self) -> None:
        began = time.time()
        try:
            found = self.fetch()
        except WatchError as problem:
            self._failed += 1
            if self._failed == OUT_OF_REACH and self.tracks:
                self.notes.append(f"{problem.message} since {datetime.fromtimestamp(began, UTC):%H:%M:%S} UTC.")
            return
        if self._failed >= OUT_OF_REACH and self.tracks:
            self.notes.append(f"`{self.address.name}` answers again since "
                              f"{datetime.fromtimestamp(began, UTC):%H:%M:%S} UTC.")  # fmt: skip
        self._failed = 0
        t_s = (began + time.time()) / 2  # the server made the page somewhere in between
        for published in found:
            self._put(published, t_s, only=len(found) == 1)

    def fetch(self) -> list[Published]:
        """The tenants on the page.

        Raises:
            WatchError: Nothing answers there, or it publishes nothing that is known.
        """
        where = self.address
        try:
            status, body = ask(where, where.target, within_s=LIMIT_S, most=LARGEST_PAGE)
        except (OSError, UnicodeError) as error:
            text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
            raise WatchError(f"`{where.name}` doesn't answer ({text.lower()})") from None
        except http.client.HTTPException:
            raise WatchError(f"`{where.name}` doesn't answer in HTTP") from None
        if status != 200:
            raise WatchError(f"`{where.name}` has no metrics: GET {where.target} returns status {status}")
        text = body.decode(errors="replace")
        found = read_published(exposed(text, self._metrics), self._known)
        if not found:
            named = "".join(f"no {name}, and " for software in self._named for name in software.histograms)
            raise WatchError(
                f"`{where.name}` publishes {named}no metrics of vLLM, SGLang, Triton, TEI, llama.cpp or cotenant",
                hint=_histogram_hint(text),
            )
        return found

    def server(self) -> int | None:
        """The process behind it; None if it doesn't answer, is on another machine, or is another user's."""
        return None if self._failed else next((_oldest(pid) for pid in listening(self.address)), None)

    def _put(self, published: Published, t_s: float, *, only: bool) -> None:
        track = self.tracks.get(published.tenant)
        if track is None:
            where = f"{self.address.host}:{self.address.port}"
            name = (self._alias if only else None) or published.tenant or where
            track = self.tracks[published.tenant] = self._new_track(name, published.software, where)
            track.facts["url"] = self.address.name
        track.add(t_s, published.totals, f"{published.software}: {self.address.name}")
        track.add_buckets(published.buckets)
        device_s = published.totals.get("device_s")
        if published.share is not None and device_s is not None:
            since, before = self._shares.setdefault(published.tenant, (t_s, device_s))
            got = 100 * (device_s - before) / (t_s - since) if t_s > since and device_s >= before else None
            track.grant(Grant("time", "cotenant serve", 100 * published.share, got, "% of the device's time"))


def page_address(text: str) -> Address:
    """The address of a server's metrics: `http://host:8000`, `host:8000`, or with a path of its own.

    Raises:
        WatchError: It isn't an address.
    """
    try:
        address = read_address(text if "://" in text else f"http://{text}")
    except WorkloadError as error:
        raise WatchError(error.message, hint=error.hint) from None
    if address.path.strip("/"):
        return address
    with suppress(WorkloadError):
        return read_address(f"{address.scheme}://{address.authority}{PATH}")
    return address


_HISTOGRAM = re.compile(r"^# TYPE (\S*(?:second|duration|latency|time)\S*) histogram", re.MULTILINE)
MOST_HISTOGRAMS = 5


def _histogram_hint(page: str) -> str:
    """Which of its histograms may be of request times."""
    names = _HISTOGRAM.findall(page)[:MOST_HISTOGRAMS]
    return (
        f"name its histogram of request times: {' or '.join(f'--histogram {name}' for name in names)}"
        if names
        else ("it has no histogram of times; without one only its process tells what it uses: name its PID")
    )


MOST_PORTS = 128
MOST_PROCESSES = 12
_NAMED = re.compile(r"(?P<name>[^=:/\s][^=/\s]*)=(?P<rest>.+)")
_UNSAFE = re.compile(r"[\\+#\[\]\s]+")


class Targets:
    """Everything that is read, and what could not be."""

    def __init__(self, histograms: Sequence[Software], gpu: GpuReader | None) -> None:
        self.tracks: list[Track] = []
        self.pages: list[PageReader] = []
        self.processes: list[ProcessReader] = []
        self.notes: list[str] = []
        self._histograms, self._gpu = histograms, gpu
        self._ports = _ports()

    def new_track(self, name: str, software: str, where: str) -> Track:
        """A tenant with a name of its own, safe in mixes and paths."""
        track = Track(own_name(name, where, {track.tenant for track in self.tracks}), software)
        self.tracks.append(track)
        return track

    def open_word(self, word: str) -> None:
        """`4711`, `http://localhost:8000` or either with a name: `chat=4711`. Raises WatchError."""
        match = _NAMED.fullmatch(word)
        name, rest = (match["name"], match["rest"]) if match else (None, word)
        if rest.isdigit():
            self._open_process(int(rest), name)
        elif "://" in rest or re.search(r":\d+(/|$)", rest):
            self._open_address(page_address(rest), name)
        else:
            raise WatchError(
                f"`{word}` is neither a process nor an address",
                hint="name a PID, or a URL such as http://localhost:8000; both may have a name: "
                "chat=http://localhost:8000",
            )

    def open_all(self) -> None:
        """Every server of this machine with known metrics, and the other processes on the GPU."""
        candidates = list(self._ports)[:MOST_PORTS]
        pages = [self._page(page_address(f"{LOCAL}:{port}"), None) for port in candidates]
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(_has_metrics, pages))
        for port, page, answered in zip(candidates, pages, answers, strict=True):
            if answered:
                self._add_page(page)
                if self._ports[port]:
                    with suppress(WatchError):  # it ended meanwhile, and its page will be reported as gone
                        self._add_process(_oldest(self._ports[port]), list(page.tracks.values()), page)
        known = {member for process in self.processes for member in family(process.pid)}
        there = [] if self._gpu is None else [pid for pid in self._gpu.pids if pid not in known]
        for pid in there[:MOST_PROCESSES]:
            try:
                self._open_process(pid, None)
            except WatchError as problem:
                self.notes.append(as_note(problem))

    def _open_address(self, address: Address, name: str | None) -> None:
        """A server by its address; the process behind it too if it is on this machine."""
        page = self._page(address, name)
        page.fetch()  # refused now, with the reason
        self._add_page(page)
        if (pid := page.server()) is not None:
            self._add_process(pid, list(page.tracks.values()), page)

    def _open_process(self, pid: int, name: str | None) -> None:
        """A process by its number; its metrics too if it listens and has some."""
        if not Path(f"/proc/{pid}").exists():
            raise WatchError(f"there is no process {pid}")
        members = family(pid)
        if self._gpu is not None and not set(members) & set(self._gpu.pids):
            there = ", ".join(map(str, self._gpu.pids)) or "none"
            self.notes.append(
                f"Process {pid} isn't on {self._gpu.gpu.label}: the driver lists {there}. Its CPU time is watched "
                "all the same."
            )
        tracks: list[Track] = []
        behind: PageReader | None = None
        watched = {page.address.port for page in self.pages if page.address.local}
        for port in (port for port, owner in self._ports.items() if owner in members and port not in watched):
            page = self._page(page_address(f"{LOCAL}:{port}"), name)
            if _has_metrics(page):
                self._add_page(page)
                tracks += page.tracks.values()
                behind = page
        if not tracks:
            track = self.new_track(name or _command(pid), "process", str(pid))
            tracks = [track]
            self.notes.append(
                f"{track.tenant} (process {pid}) publishes no metrics: its use counts for its neighbours, but whether "
                "it is slowed can't be seen."
            )
        self._add_process(pid, tracks, behind)

    def _page(self, address: Address, name: str | None) -> PageReader:
        return PageReader(address, name, self._histograms, self.new_track)

    def _add_page(self, page: PageReader) -> None:
        page.read()
        self.pages.append(page)

    def _add_process(self, pid: int, tracks: list[Track], page: PageReader | None) -> None:
        same = next((process for process in self.processes if process.pid == pid), None)
        if same is None:
            self.processes.append(ProcessReader(pid, tracks, again=None if page is None else page.server))
        else:  # one process behind several ports
            same.tracks += [track for track in tracks if track not in same.tracks]


def open_targets(words: Sequence[str], histograms: Sequence[Software], gpu: GpuReader | None) -> Targets:
    """Readers for what was named, or for what runs here if nothing was.

    Raises:
        WatchError: None of it can be watched; with some that can, the others are noted.
    """
    found = Targets(histograms, gpu)
    problems: list[WatchError] = []
    for word in words:
        try:
            found.open_word(word)
        except WatchError as problem:
            problems.append(problem)
    if not words:
        found.open_all()
    if not found.tracks:
        raise (
            problems[0]
            if problems
            else WatchError(
                "nothing here publishes metrics that are known, and no process is on the device",
                hint="name a server: cotenant watch http://localhost:8000, or a process: cotenant watch 4711",
            )
        )
    found.notes += [as_note(problem) for problem in problems]
    return found


def as_note(problem: CotenantError) -> str:
    """A problem as a sentence of its own."""
    return f"{problem.message[:1].upper()}{problem.message[1:]}{f' ({problem.hint})' if problem.hint else ''}."


def own_name(name: str, where: str, taken: Collection[str]) -> str:
    """A tenant's name: safe in mixes and paths, and different from those that are taken."""
    plain = _UNSAFE.sub("-", name.rsplit("/", 1)[-1]).strip("-") or where
    if plain in taken:
        plain = f"{plain}@{where}"
    number = 2
    while plain in taken:
        plain, number = f"{plain}-{number}", number + 1
    return plain


def _has_metrics(page: PageReader) -> bool:
    try:
        return bool(page.fetch())
    except WatchError:
        return False


def _ports() -> dict[int, int]:
    """Ports of this machine that something else listens on, and its process; 0 where that is another user's."""
    import psutil

    try:
        found = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return {}
    listed = {
        connection.laddr.port: connection.pid or 0
        for connection in found
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.pid != os.getpid()
    }
    return dict(sorted(listed.items()))


def _oldest(pid: int) -> int:
    """The first process of a server that forked: its parents as long as they run the same program."""
    import psutil

    try:
        process = psutil.Process(pid)
        program = process.exe()
        while (parent := process.parent()) is not None and parent.pid > 1 and parent.exe() == program:
            if parent.pid == os.getpid() or parent.cmdline()[:2] != process.cmdline()[:2]:
                break
            process = parent
    except (psutil.Error, OSError):
        return pid
    return process.pid


def _command(pid: int) -> str:
    try:
        return f"{Path(f'/proc/{pid}/comm').read_text(encoding='utf-8', errors='replace').strip()}-{pid}"
    except OSError:
        return str(pid)
