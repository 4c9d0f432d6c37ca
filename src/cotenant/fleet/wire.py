"""Messages between the processes of a fleet, as bytes: facts and commands are JSON, trials the files of sealed folders.

Nothing is pickled: an object of another version can't be mistaken for ours, and a reply can't run code.
"""

import asyncio
import io
import json
import os
import shutil
import sys
import tarfile
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cotenant import errors, opening
from cotenant.errors import CotenantError, FleetError, RunFolderError
from cotenant.store import manifest as manifests
from cotenant.store.folder import PARTIAL, RunFolder, slug

MOST_BYTES = 1 << 31
"""Size limit of one unpacked parcel."""


def packed(value: Any) -> bytes:
    """A value as JSON."""
    return json.dumps(value, default=_plain).encode()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def unpacked(data: bytes) -> Any:
    """Decode a value. Raises FleetError if it is not JSON."""
    try:
        return json.loads(data)
    except ValueError:
        raise FleetError("a node sent invalid JSON", hint="install the same cotenant on all nodes") from None


def problem(error: CotenantError) -> bytes:
    """An error that happened elsewhere, to be raised here."""
    return packed({"problem": type(error).__name__, "message": error.message, "hint": error.hint})


def raise_problem(said: Mapping[str, Any], where: str) -> None:
    """Raise the error in a reply, if there is one; the message says where it happened."""
    if "problem" not in said:
        return
    kind = getattr(errors, str(said["problem"]), FleetError)
    kind = kind if isinstance(kind, type) and issubclass(kind, CotenantError) else FleetError
    try:
        raise kind(f"{where}: {said['message']}", hint=said.get("hint"))
    except TypeError:  # an error with other arguments
        raise FleetError(f"{where}: {said['message']}", hint=said.get("hint")) from None


def parcel(folder: Path) -> bytes:
    """A committed folder of trials with its files."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for file in sorted(folder.iterdir()):
            content = opening.read_bytes(file, most=MOST_BYTES, follow=False)
            entry = tarfile.TarInfo(f"{folder.name}/{file.name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return whole.getvalue()


def opened(data: bytes) -> dict[str, dict[str, bytes]]:
    """Contents of a parcel: folder -> file -> bytes. Raises FleetError unless it has only plain files in folders."""
    found: dict[str, dict[str, bytes]] = {}
    size = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for entry in archive:
                folder, _, file = entry.name.partition("/")
                size += entry.size
                if not entry.isfile() or not folder or not file or "/" in file or size > MOST_BYTES:
                    raise FleetError(f"a node sent {entry.name[:80]!r}, which is not a file of trials")
                content = archive.extractfile(entry)
                assert content is not None, "a plain file has content"
                found.setdefault(folder, {})[file] = content.read()
    except tarfile.TarError:
        raise FleetError("a node sent trials that can't be unpacked", hint="measure them again") from None
    return found


# --- copy runs from other nodes: find them below a folder, send all their files, and move them into place atomically

DEEPEST = 4
"""Depth of the search for runs."""


def runs_below(folder: Path, depth: int = DEEPEST) -> Iterator[Path]:
    """Run folders in a folder, including itself; runs are not nested."""
    if (folder / manifests.NAME).is_file():
        yield folder
        return
    if depth and folder.is_dir():
        for entry in sorted(folder.iterdir()):
            if entry.is_dir() and not entry.is_symlink() and not entry.name.startswith("."):
                yield from runs_below(entry, depth - 1)


def run_parcel(folder: Path) -> bytes:
    """A run with its manifest and its committed trials. Raises RunFolderError if it isn't one, or is too large."""
    run = RunFolder.open(folder)
    files = [folder / manifests.NAME, *(file for chunk in run.chunks() for file in sorted(chunk.iterdir()))]
    size = sum(file.stat().st_size for file in files)
    if size > MOST_BYTES:
        raise RunFolderError(
            f"{folder} has {size / 2**30:.1f} GiB, too much to send at once",
            hint=f"copy it: rsync -a {folder} HERE:runs/",
        )
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for file in files:
            archive.add(file, arcname=str(file.relative_to(folder)), recursive=False)
    return whole.getvalue()


def put_in_place(data: bytes, home: Path, name: str) -> Path:
    """Unpack a run below ``home``, unless it already exists. Returns its folder.

    Raises:
        FleetError: It is not a run.
    """
    target = home / slug(name)
    if target.exists():
        return target
    unfinished = home / PARTIAL / slug(name)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            archive.extractall(unfinished, filter="data")
        RunFolder.open(unfinished)
        unfinished.rename(target)
    except (tarfile.TarError, RunFolderError, OSError) as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise FleetError(
            f"run {name} arrived damaged: {getattr(error, 'message', error)}", hint="gather it again"
        ) from None
    return target


# --- the inside of a process that an actor keeps: orders come as lines on its standard input, replies leave as lines

Obey = Callable[[dict[str, Any]], Awaitable[dict[str, Any] | None]]
"""Carries out an order; None: it has no reply."""


def first_order() -> dict[str, Any]:
    """What to do."""
    line = sys.stdin.buffer.readline()
    if not line:
        os._exit(1)
    order: dict[str, Any] = unpacked(line)
    return order


def reply(said: bytes) -> None:
    """Answer an order."""
    sys.stdout.buffer.write(said + b"\n")
    sys.stdout.buffer.flush()


def follow(obey: Obey) -> None:
    """Carry out further orders in this thread's event loop, one after the other."""
    loop = asyncio.get_running_loop()

    async def carry_out(order: dict[str, Any]) -> None:
        try:
            said = await obey(order)
        except CotenantError as error:
            reply(problem(error))
        else:
            if said is not None:
                reply(packed(said))

    def read() -> None:
        for line in sys.stdin.buffer:
            asyncio.run_coroutine_threadsafe(carry_out(unpacked(line)), loop)
        os._exit(1)  # the actor is gone: nothing may be answered any more

    threading.Thread(target=read, name="orders", daemon=True).start()
