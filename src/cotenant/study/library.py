"""The built-in studies."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "builtin"


@dataclass(frozen=True, slots=True)
class StudyInfo:
    """One line of the list of studies."""

    name: str
    about: str
    tenants: tuple[str, ...]
    mixes: tuple[str, ...]
    """Labels of the mixes of several tenants; solo trials come on top."""


@cache
def builtin_names() -> tuple[str, ...]:
    """The built-in studies, `quick` first."""
    names = sorted(file.stem for file in _FOLDER.glob("*.yaml"))
    return tuple(sorted(names, key=lambda name: name != "quick"))


def builtin_file(name: str) -> Path:
    """The file of a built-in study."""
    return _FOLDER / f"{name}.yaml"


def builtin_studies() -> tuple[StudyInfo, ...]:
    """Summary of each built-in study."""
    from cotenant.study.files import load_study

    studies = (load_study(name) for name in builtin_names())
    return tuple(
        StudyInfo(
            name=study.name,
            about=study.about,
            tenants=study.measured(),
            mixes=tuple(mix.label for mix in study.mix_list()),
        )
        for study in studies
    )
