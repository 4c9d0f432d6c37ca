"""Export figures as SVG and PNG files."""

from collections.abc import Iterable
from pathlib import Path

from cotenant import opening
from cotenant.errors import CotenantError
from cotenant.reporting.figures.figure import Figure

LANGUAGE = "6.4"
"""The version of Vega-Lite, the same as in the HTML report."""
SCALE = 2.0


def export_figures(figures: Iterable[Figure], folder: Path) -> list[Path]:
    """Write `<name>.svg` and `<name>.png` for each figure and return their paths.

    Raises:
        CotenantError: The renderer is not installed, or the folder can't be written to.
    """
    try:
        import vl_convert
    except ImportError:
        raise CotenantError(
            "figures as files need vl-convert, which is not installed.",
            hint="pip install 'cotenant[figures]', or use the figures in the HTML report",
        ) from None
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for figure in figures:
            spec = figure.complete()
            svg, png = folder / f"{figure.name}.svg", folder / f"{figure.name}.png"
            # Load nothing: the data is in the specification.
            drawn = vl_convert.vegalite_to_svg(spec, vl_version=LANGUAGE, allowed_base_urls=[])
            svg.write_text(drawn, encoding="utf-8")
            png.write_bytes(vl_convert.vegalite_to_png(spec, vl_version=LANGUAGE, scale=SCALE, allowed_base_urls=[]))
            written += [svg, png]
    except OSError as error:
        raise CotenantError(
            f"figures can't be written to {folder}: {opening.why(error)}.",
            hint="choose another folder: --figures DIR",
        ) from None
    return written
