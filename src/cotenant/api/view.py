"""`view`: a folder of runs in a browser."""

from collections.abc import Callable
from pathlib import Path

from cotenant.paths import AnyPath

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
    from cotenant.reporting.browser import listening_site, site_over

    directory = Path(directory)
    if not directory.is_dir():
        wrong = (
            f"{directory} is a file, not a folder of runs" if directory.exists() else f"There is no folder {directory}"
        )
        raise RunFolderError(
            f"{wrong}.",
            hint="Name the folder that holds your runs: cotenant view DIR; or measure one: cotenant run quick",
        )
    site, index = site_over(directory)
    index.watch()
    try:
        with listening_site(port, site) as server:
            ready(server.url)
            server.serve_forever()
    except KeyboardInterrupt:
        pass  # Ctrl-C is the normal way to stop
    finally:
        site.close()
        index.close()
