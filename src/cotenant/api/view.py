"""`view`: a folder of runs in a browser."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.api.paths import AnyPath

if TYPE_CHECKING:
    from cotenant.analyse.comparison.history import History
    from cotenant.analyse.comparison.pair import Comparison
    from cotenant.analyse.findings.devices import SideBySide
    from cotenant.reporting.browser.server import Server
    from cotenant.reporting.browser.site import Site

PORT = 8765


def view(directory: AnyPath = Path("runs"), *, port: int = PORT, ready: Callable[[str], None] = print) -> None:
    """Serve a folder of runs on this machine, to be read in a browser, until Ctrl-C.

    Args:
        directory: The folder; runs are looked for up to three levels deep.
        port: Where to listen on 127.0.0.1; 0 takes a free one.
        ready: Told the address to open, once it can be opened.

    Raises:
        RunFolderError: There is no such folder.
        CotenantError: The port can't be had.
    """
    from cotenant.errors import RunFolderError
    from cotenant.reporting.browser.site import site_over

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
        pass  # how a reader says that it is enough
    finally:
        site.close()
        index.close()


def _compared(runs: Sequence[Path]) -> "Comparison | History | SideBySide":
    from cotenant.api.compare import compare

    return compare(runs)


def _listening(port: int, site: "Site") -> "Server":
    import errno

    from cotenant.errors import CotenantError
    from cotenant.reporting.browser.server import ADDRESS, Server

    try:
        return Server(port, site)
    except OSError as error:
        reason = "is in use" if error.errno == errno.EADDRINUSE else f"can't be had: {(error.strerror or '').lower()}"
        raise CotenantError(
            f"Port {port} of {ADDRESS} {reason}.", hint="Take another: cotenant view --port 0 finds a free one."
        ) from None
