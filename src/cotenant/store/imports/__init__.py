"""Import measurements of other tools into our columns: one reader per format, all or nothing by default."""

from cotenant.store.imports.formats import FORMATS, detect, read
from cotenant.store.imports.result import Imported, Series, Skipped

__all__ = ["FORMATS", "Imported", "Series", "Skipped", "detect", "read"]
