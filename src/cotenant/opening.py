"""Open files of unknown origin: only regular files of bounded size, without ever blocking; replace files as a whole.

Opening a named pipe may block forever, a device has no end, and a link may lead anywhere. Each is an `OSError` whose
`strerror` is a phrase for the user, so callers report it like any other unreadable file.
"""

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TEXT_BYTES = 16 << 20
"""More than any manifest, study or plan."""
TABLE_BYTES = 64 << 30
"""More than any table that is streamed or mapped by a database."""

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_KINDS = {
    stat.S_IFIFO: "it is a named pipe, not a file",
    stat.S_IFSOCK: "it is a socket, not a file",
    stat.S_IFCHR: "it is a device, not a file",
    stat.S_IFBLK: "it is a device, not a file",
    stat.S_IFDIR: "it is a folder, not a file",
}


def descriptor(path: Path | str, *, most: int, follow: bool = True, folder: int | None = None) -> int:
    """Open a regular file for reading; returns a file descriptor that the caller closes.

    Args:
        path: The file.
        most: Size limit in bytes.
        follow: Allow a symbolic link. Not inside a run folder: the link could lead out of it.
        folder: A descriptor of the folder that `path` is relative to.

    Raises:
        OSError: It can't be opened, or it is not such a file.
    """
    return examined(path, most=most, follow=follow, folder=folder)[0]


def examined(
    path: Path | str, *, most: int, follow: bool = True, folder: int | None = None
) -> tuple[int, os.stat_result]:
    """The same, with what was found out about the open file. Raises OSError."""
    opened = os.open(path, _FLAGS if follow else _FLAGS | os.O_NOFOLLOW, dir_fd=folder)
    found = os.fstat(opened)
    refused = _refused(found, most, path)
    if refused is not None:
        os.close(opened)
        raise refused
    return opened, found


def open_file(path: Path | str, *, most: int, follow: bool = True, folder: int | None = None) -> io.BufferedReader:
    """The same as a binary file object. Raises OSError."""
    return open(descriptor(path, most=most, follow=follow, folder=folder), "rb")


def read_bytes(path: Path | str, *, most: int = TEXT_BYTES, follow: bool = True, folder: int | None = None) -> bytes:
    """The content of a regular file; a file that grows meanwhile is cut at the limit. Raises OSError."""
    opened, found = examined(path, most=most, follow=follow, folder=folder)
    try:
        # As large as the file, not as the limit: a buffer of the limit's size costs more than most files.
        content = block = os.read(opened, found.st_size + 1)
        while block and len(content) != found.st_size and len(content) <= most:
            block = os.read(opened, most + 1 - len(content))
            content += block
    finally:
        os.close(opened)
    if len(content) > most:
        raise _too_large(most, path)
    return content


def read_text(path: Path | str, *, most: int = TEXT_BYTES, follow: bool = True, encoding: str = "utf-8") -> str:
    """The text of a regular file. Raises OSError, and UnicodeDecodeError (a ValueError) if it is not text."""
    return read_bytes(path, most=most, follow=follow).decode(encoding)


def replace_file(path: Path, content: str | bytes, *, draft: str | None = None) -> None:
    """Replace a file, folders above it included: a reader of the old one never sees half of the new. Raises OSError.

    Args:
        path: The file.
        content: Its new content.
        draft: Name of the unfinished file, for a file with a single writer that must be on disk before work goes on.
    """
    with drafted(path, draft, on_disk=draft is not None) as unfinished:
        unfinished.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace"))


@contextmanager
def drafted(path: Path, draft: str | None = None, *, on_disk: bool = False) -> Iterator[Path]:
    """A file to write in the block, which then replaces this one; after an error it is removed. Raises OSError.

    Args:
        path: The file to replace; folders above it are made.
        draft: Name of the unfinished file; default: one of this process.
        on_disk: Wait until it is on disk.
    """
    unfinished = path.with_name(draft or f".{path.name}.{os.getpid()}.new")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield unfinished
        if on_disk:
            sync(unfinished)
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise
    if on_disk:
        sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _refused(found: os.stat_result, most: int, path: Path | str) -> OSError | None:
    if not stat.S_ISREG(found.st_mode):
        return OSError(errno.EINVAL, _KINDS.get(stat.S_IFMT(found.st_mode), "it is not a regular file"), str(path))
    return _too_large(most, path) if found.st_size > most else None


def _too_large(most: int, path: Path | str) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {_size(most)}", str(path))


def why(error: OSError) -> str:
    """Why a file can't be opened, read or written, as the end of a sentence."""
    if error.errno == errno.ELOOP:
        return "it is a link, which could lead out of the folder"
    if error.errno == errno.EEXIST:
        return f"{error.filename} is a file, not a folder"
    return (error.strerror or str(error)).lower()


def system_words(error: BaseException) -> str:
    """The operating system's error from a library's message that wraps it."""
    if isinstance(error, OSError):
        return why(error)
    message = str(error)
    known = (os.strerror(code) for code in sorted(errno.errorcode))
    return next((words.lower() for words in known if words in message), message.splitlines()[0].rstrip("."))


def _size(count: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count} {unit}"
        count //= 1024
    return f"{count} GiB"
