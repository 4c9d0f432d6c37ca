"""`view`: a folder of runs in a browser."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.paths import AnyPath

if TYPE_CHECKING:
    from cotenant.analyse.comparison import History, PairComparison
    from cotenant.analyse.result import SideBySide
    from cotenant.reporting.browser import Site, ViewServer

PORT = 8765


def view(directory: AnyPath = Path("runs"), *, port: int = PORT, ready: Callable[[str], None] = print) -> None:
    """Serve a folder of runs to browsers on this machine until Ctrl-C.

    Args:
        directory: The folder; runs are found up to three levels deep.
        port: Port on 127.0.0.1; 0 picks any free port.
        ready: Called with the address once it can be opened.

    Raises:
        RunFolderError: There is no such folder.
        CotenantError: The port is not available.
    """
    from cotenant.errors import RunFolderError
    from cotenant.reporting.browser import site_over

    directory = Path(directory)
    if not directory.is_dir():
        wrong = (
            f"{directory} is a file, not a folder of runs" if directory.exists() else f"There is no folder {directory}"
        )
        raise RunFolderError(
            f"{wrong}.",
            hint="Name the folder that holds your runs: cotenant view DIR; or measure one: cotenant run quick",
        )
    site, index = site_over(directory, _compared)
    index.watch()
    try:
        with _listening(port, site) as server:
            ready(server.url)
            server.serve_forever()
    except KeyboardInterrupt:
        pass  # Ctrl-C is the normal way to stop
    finally:
        site.close()
        index.close()


def _compared(runs: Sequence[Path]) -> "PairComparison | History | SideBySide":
    from cotenant.api.compare import compared_runs

    return compared_runs(runs)


def _listening(port: int, site: "Site") -> "ViewServer":
    import errno

    from cotenant.errors import CotenantError
    from cotenant.reporting.browser import ADDRESS, ViewServer

    try:
        return ViewServer(port, site)
    except OSError as error:
        reason = "is in use" if error.errno == errno.EADDRINUSE else f"is unavailable: {(error.strerror or '').lower()}"
        raise CotenantError(
            f"Port {port} of {ADDRESS} {reason}.", hint="Choose another: cotenant view --port 0 picks a free one."
        ) from None
