"""A folder with one folder of images per class."""

import hashlib
from pathlib import Path

from cotenant.errors import DataError
from cotenant.ranking.data.images import Images, readable
from cotenant.ranking.data.labelling import numbered, usable_items

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")


def open_images(name: str, folder: Path, *, skip_bad: bool) -> Images:
    """The images below a folder; its subfolders are the classes."""
    kinds = sorted(child for child in folder.iterdir() if child.is_dir() and not child.name.startswith("."))
    if not kinds:
        raise DataError(f"{folder} has no subfolders; one per class is needed", hint="see `photos/cat/1.jpg`")
    files: list[Path] = []
    written: list[str] = []
    skipped = 0
    for kind in kinds:
        found = sorted(file for file in kind.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
        if not found and not skip_bad:
            raise DataError(
                f"class {kind.name!r} of {folder} has no images", hint="remove it, or skip bad items: --skip-bad"
            )
        good = [file for file in found if readable(file)] if skip_bad else found
        skipped += len(found) - len(good) + (not found)
        files += good
        written += [kind.name] * len(good)
    if not files:
        raise DataError(f"{folder} has no images that can be read", hint=f"they end in {', '.join(SUFFIXES[:4])}, ...")
    kept = usable_items(str(folder), written, skip_bad=skip_bad)
    skipped += len(files) - len(kept)
    classes, labels = numbered([written[position] for position in kept])
    sources = tuple(files[position] for position in kept)
    return Images(name, sources, classes, labels, _fingerprint(folder, sources), skipped)


def _fingerprint(folder: Path, files: tuple[Path, ...]) -> str:
    """Names, sizes and times: reading every byte of a large folder would cost more than using it."""
    digest = hashlib.sha256()
    for file in files:
        state = file.stat()
        digest.update(f"{file.relative_to(folder)}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
    return digest.hexdigest()
