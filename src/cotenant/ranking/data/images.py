"""Images with labels from any source: files, encoded bytes, or pixels."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from cotenant import opening
from cotenant.errors import DataError
from cotenant.ranking.data.texts import numbered, usable_items
from cotenant.ranking.protocol import Labels

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image


Pixels = npt.NDArray[np.uint8]
Source = Path | bytes | Pixels

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, slots=True)
class Images:
    """A set of labelled images. ``load`` gives `pixel_values`: items x 3 x side x side, normalised."""

    name: str
    sources: tuple[Source, ...]
    classes: tuple[str, ...]
    labels: Labels
    fingerprint: str
    skipped: int = 0
    """Items and classes skipped because they can't be used."""
    kind: Literal["image"] = "image"

    def __len__(self) -> int:
        return len(self.sources)

    def load(self, indices: Sequence[int], shape: Mapping[str, Any]) -> Mapping[str, "torch.Tensor"]:
        """Decode, scale the shorter side to ``shape["image"]``, crop the centre, normalise.

        ``shape`` may have `mean` and `std` (three numbers each); default: ImageNet's.
        """
        import torch

        side = int(shape["image"])
        mean = np.asarray(shape.get("mean", IMAGENET_MEAN), np.float32)
        std = np.asarray(shape.get("std", IMAGENET_STD), np.float32)
        batch = np.empty((len(indices), side, side, 3), np.uint8)
        for row, index in enumerate(indices):
            batch[row] = squared(decoded(self.sources[index], f"item {index} of {self.name}"), side)
        # One multiplication and addition per colour, over the entire batch.
        pixels = torch.from_numpy(batch).permute(0, 3, 1, 2).float()
        scale = torch.from_numpy(1 / (255 * std)).view(3, 1, 1)
        shift = torch.from_numpy(-mean / std).view(3, 1, 1)
        return {"pixel_values": pixels.mul_(scale).add_(shift).contiguous()}


def decoded(source: Source, what: str) -> "Image":
    """The complete image in RGB."""
    from PIL import Image, UnidentifiedImageError

    if isinstance(source, np.ndarray):
        return Image.fromarray(source).convert("RGB")
    where = str(source) if isinstance(source, Path) else what
    try:
        opened = opening.open_file(source, most=LARGEST) if isinstance(source, Path) else io.BytesIO(source)
        with opened, Image.open(opened) as image:
            return image.convert("RGB")
    except UnidentifiedImageError:
        raise DataError(f"{where} is not a readable image", hint=_SKIP) from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{where} can't be read: {_first_line(error)}", hint=_SKIP) from error


def squared(image: "Image", side: int) -> Pixels:
    """The centre of an image as a square of this side."""
    from PIL import Image

    width, height = image.size
    edge = min(width, height)
    left, top = (width - edge) / 2, (height - edge) / 2
    if (width, height) == (side, side):
        return np.asarray(image)
    cut = image.resize((side, side), Image.Resampling.BILINEAR, box=(left, top, left + edge, top + edge))
    return np.asarray(cut)


def readable(source: Source) -> bool:
    """True if all of it can be decoded."""
    try:
        decoded(source, "")
    except DataError:
        return False
    return True


LARGEST = 1 << 30
"""Bytes of an image file."""
_SKIP = "fix or remove it, or skip bad items: --skip-bad"


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


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
        own = sorted(file for file in kind.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
        if not own and not skip_bad:
            raise DataError(
                f"class {kind.name!r} of {folder} has no images", hint="remove it, or skip bad items: --skip-bad"
            )
        good = [file for file in own if readable(file)] if skip_bad else own
        skipped += len(own) - len(good) + (not own)
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
