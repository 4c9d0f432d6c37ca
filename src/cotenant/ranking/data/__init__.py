"""Labelled items to rank models by: opened by name, read a batch at a time.

photos                                      a folder with one folder of images per class
reviews.csv?text=review&label=sentiment     a table of texts (CSV, TSV or Parquet), its columns by name
pets.parquet?image=image&label=breed        a table of encoded images
imdb?text=text&label=label                  a `datasets` folder on disk (`save_to_disk`), or one of Parquet files
embedded:fashion, embedded:glosses          data bundled with cotenant
embedded:fashion@224                        the same images as JPEG files of that size
"""

from pathlib import Path
from urllib.parse import parse_qsl

from cotenant.errors import DataError
from cotenant.ranking.data.embedded import EMBEDDED, check_embedded, open_embedded
from cotenant.ranking.data.images import open_images
from cotenant.ranking.data.tables import TABLES, is_arrow_folder, open_arrow, open_table
from cotenant.ranking.protocol import Data

__all__ = ["check_data", "open_data"]

_OPTIONS = ("text", "image", "label")
_FORM = "write reviews.csv?text=COLUMN&label=COLUMN (or image=COLUMN)"


def open_data(name: str, *, skip_bad: bool = False) -> Data:
    """The data with that name.

    Args:
        name: As described at the top of this module.
        skip_bad: Leave out items that can't be read and classes with fewer than two items, and count them in
            ``skipped``. Every image is decoded once to find them. Without it the first of them is an error.

    Raises:
        DataError: There is none, or part of it can't be used; the message names it.
    """
    if name.startswith(EMBEDDED):
        return open_embedded(name)
    path, columns = _parsed(name)
    if not path.exists():
        raise _absent(path)
    if path.is_file():
        if path.suffix.lower() not in TABLES:
            raise DataError(f"{path} is not a supported kind of data", hint=f"a table ends in {', '.join(TABLES)}")
        return open_table(name, (path,), _complete(path, columns), skip_bad=skip_bad)
    if is_arrow_folder(path):
        return open_arrow(name, path, _complete(path, columns), skip_bad=skip_bad)
    parquet = tuple(sorted(path.rglob("*.parquet")))
    if parquet:
        return open_table(name, parquet, _complete(path, columns), skip_bad=skip_bad)
    if columns:
        raise DataError(f"{path} is a folder of images, which has no columns", hint="remove everything from the `?` on")
    return open_images(name, path, skip_bad=skip_bad)


def check_data(name: str) -> None:
    """Refuse an invalid name, without reading any item. Raises DataError."""
    if name.startswith(EMBEDDED):
        check_embedded(name)
    elif not _parsed(name)[0].exists():
        raise _absent(_parsed(name)[0])


def _absent(path: Path) -> DataError:
    return DataError(f"there is no data {str(path)!r}", hint="give a folder, a table, or embedded:fashion")


def _parsed(name: str) -> tuple[Path, dict[str, str]]:
    whole = Path(name).expanduser()
    if "?" not in name or whole.exists():
        return whole, {}
    path, _, query = name.partition("?")
    columns = dict(parse_qsl(query, keep_blank_values=True))
    unknown = [key for key in columns if key not in _OPTIONS]
    if unknown:
        raise DataError(f"{name} has an unknown option {unknown[0]!r}", hint=_FORM)
    return Path(path).expanduser(), columns


def _complete(path: Path, columns: dict[str, str]) -> dict[str, str]:
    """Require column names for tables: guessing a label column would rank models by the wrong thing."""
    if "label" not in columns or ("text" in columns) == ("image" in columns):
        raise DataError(f"{path} is a table, but its text (or image) and label columns were not named", hint=_FORM)
    return columns
