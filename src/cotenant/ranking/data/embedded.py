"""Data bundled with cotenant: real images and texts, small and free to use (see embedded_files/LICENCES.md)."""

import hashlib
import os
from functools import cache
from pathlib import Path

import numpy as np

from cotenant.cache import cache_folder
from cotenant.errors import DataError
from cotenant.ranking.data.images import Images, Pixels, open_images
from cotenant.ranking.data.texts import Texts, fingerprint_of, numbered

EMBEDDED = "embedded:"
_FILES = Path(__file__).parent / "embedded_files"
_TILE = 28
_FASHION = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle-boot")
_SIDES = range(32, 1025)
_QUALITY = 90


def open_embedded(name: str) -> Images | Texts:
    """`embedded:fashion`, `embedded:fashion@224` or `embedded:glosses`."""
    kind, side = check_embedded(name)
    if kind == "glosses":
        return _glosses(name)
    return _fashion(name) if side is None else open_images(name, _jpeg_folder(side), skip_bad=False)


def check_embedded(name: str) -> tuple[str, int | None]:
    """Parse the name: which data, and the side of its images. Raises DataError."""
    kind, at, side = name.removeprefix(EMBEDDED).partition("@")
    if (kind, at) == ("glosses", "") or (kind, at) == ("fashion", ""):
        return kind, None
    if kind != "fashion":
        raise DataError(f"there is no data {name!r}", hint="choose embedded:fashion or embedded:glosses")
    if not side.isdecimal() or int(side) not in _SIDES:
        raise DataError(f"{name}: {side!r} is not an image size", hint="from 32 to 1024 pixels: embedded:fashion@224")
    return kind, int(side)


def _fashion(name: str) -> Images:
    tiles = _tiles()
    labels = np.arange(len(tiles), dtype=np.int64) % len(_FASHION)
    return Images(name, tuple(tiles), _FASHION, labels, hashlib.sha256(tiles.tobytes()).hexdigest())


def _glosses(name: str) -> Texts:
    lines = (_FILES / "glosses.tsv").read_text(encoding="utf-8").splitlines()
    kinds, texts = zip(*(line.split("\t") for line in lines), strict=True)
    classes, labels = numbered(kinds)
    return Texts(name, texts, classes, labels, fingerprint_of(texts, labels))


@cache
def _tiles() -> Pixels:
    from PIL import Image

    with Image.open(_FILES / "fashion.png") as image:
        sheet = np.asarray(image)
    rows, columns = sheet.shape[0] // _TILE, sheet.shape[1] // _TILE
    return np.ascontiguousarray(sheet.reshape(rows, _TILE, columns, _TILE).swapaxes(1, 2)).reshape(-1, _TILE, _TILE)


def _jpeg_folder(side: int) -> Path:
    """The images as JPEG files of this size in the user's cache, with realistic decoding costs."""
    folder = cache_folder("data") / f"fashion-{side}"
    if folder.is_dir():
        return folder
    from PIL import Image

    part = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    try:
        for kind in _FASHION:
            (part / kind).mkdir(parents=True)
        for number, tile in enumerate(_tiles()):
            large = Image.fromarray(tile).resize((side, side), Image.Resampling.BICUBIC).convert("RGB")
            file = part / _FASHION[number % len(_FASHION)] / f"{number:04}.jpg"
            large.save(file, quality=_QUALITY)
            os.utime(file, (0, 0))  # the same images, whenever they were written
        part.rename(folder)
    except OSError as error:
        _remove(part)
        if folder.is_dir():  # another process was faster
            return folder
        raise DataError(f"{folder} can't be written: {error.strerror or error}", hint="set XDG_CACHE_HOME") from error
    return folder


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
