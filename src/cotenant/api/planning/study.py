"""Studies around a plan: the measurements needed to plan for a real device, and the measurement of a plan."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant import opening
from cotenant.api.paths import AnyPath
from cotenant.errors import CotenantError, StudyError
from cotenant.planning.mixes.study import study_of

if TYPE_CHECKING:
    from cotenant.planning.tenants_file import PlannedEntry

MOST_PAIRED = 8
"""Up to this many tenants all pairs are measured at once; beyond, `cotenant run --active` chooses."""
NOT_RUN = ("rate", "load", "slo", "batch", "near", "apart", "replicas", "isolation", "job", "priority", "share",
           "software")  # fmt: skip
"""Keys of a tenants file that state requirements, not what runs."""


def runs_of(entry: "PlannedEntry") -> dict[str, Any]:
    """A tenant in the format of a study."""
    found: dict[str, Any] = entry.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=set(NOT_RUN))
    return found


def write_study(tenants: AnyPath, devices: str, out: AnyPath) -> tuple[Path, ...]:
    """Write the study that a plan for a real device needs: every tenant alone at every batch, and pairs.

    For a CPU a second one measures every tenant at its own rate, because requests after a pause take longer there. It
    is a study of its own since open loads need longer windows than slowdowns do.

    Args:
        tenants: The tenants file.
        devices: As for the plan; the study is for the first of them.
        out: The study's file.

    Returns:
        The files written.

    Raises:
        CotenantError: The tenants file or a device is wrong, or the study can't be written.
    """
    from cotenant.api.planning.devices import devices_of
    from cotenant.planning.tenants_file import read_tenants
    from cotenant.study.tree import write

    tenants = Path(tenants)
    out = Path(out)
    file = read_tenants(tenants)
    kind = devices_of(devices, file.prices, priced=False).kinds[0]
    study: dict[str, Any] = {
        "about": f"Measurements needed to plan for {tenants.name}: every tenant alone, and pairs.",
        "device": kind.member(0),
        "tenants": {},
        "mixes": ["solo"],
        "sharing": [kind.ways[0]],
    }
    for name, entry in file.tenants.items():
        for place, batch in enumerate(entry.batch):
            study["tenants"][name if not place else f"{name}-b{batch}"] = _entry(entry, batch)
    names = list(file.tenants)
    if 1 < len(names) <= MOST_PAIRED:
        pairs = {f"{one}-{other}": [one, other] for place, one in enumerate(names) for other in names[place + 1 :]}
        study["mixes"].append({"groups": pairs})
    head = f"# For: cotenant plan {tenants} --devices {devices} --from RUN\n"
    _written(out, head + write(study))
    spaced = _spaced(file.tenants)
    if kind.name.partition(":")[0] != "cpu" or not spaced:
        return (out,)
    about = f"Every tenant of {tenants.name} alone at its own rate: requests after a pause."
    beside = out.with_name(f"{out.stem}-spaced{out.suffix}")
    _written(
        beside,
        head
        + write({"about": about, "device": kind.member(0), "tenants": spaced, "mixes": ["solo"], "budget": "2min"}),
    )
    return out, beside


def _spaced(tenants: "Mapping[str, PlannedEntry]") -> dict[str, Any]:
    """Tenants at their own rates; not jobs."""
    rates = {name: entry.planned(name).rate_rps for name, entry in tenants.items()}
    return {
        name: {**_entry(entry, entry.batch[0]), "load": f"poisson({rates[name]:.6g})"}
        for name, entry in tenants.items()
        if rates[name] > 0
    }


def _entry(entry: "PlannedEntry", batch: int) -> dict[str, Any]:
    software = {"software": entry.software[0]} if entry.software else {}
    return {**runs_of(entry), **software, "batch": batch}


def planned_study(path: str | Path, device: str | None) -> dict[str, Any] | None:
    """The study of a plan file; None if it isn't a plan.

    Raises:
        StudyError: It is a plan that can't be measured.
    """
    from cotenant.api.planning.written import read_plan
    from cotenant.study.tree import NotYaml, read

    file = Path(path)
    if file.suffix not in {".yaml", ".yml"} or not file.is_file():
        return None
    try:
        data = read(opening.read_text(file), str(file)).data
    except (OSError, UnicodeDecodeError, NotYaml):
        return None  # reading it as a study reports the error
    if not isinstance(data, dict) or "plan" not in data or "devices" not in data:
        return None
    return study_of_plan(read_plan(file), str(file), device)


def study_of_plan(document: Mapping[str, Any], source: str, device: str | None) -> dict[str, Any]:
    """One device of a plan as a study: its mix at the plan's rates, shared as planned.

    Args:
        document: Contents of a plan.yaml.
        source: Its name, for messages.
        device: Which of its devices; None: the only one.

    Raises:
        StudyError: The plan has no such device, or it can't be measured.
    """
    found = {str(one.get("name", one["kind"])): one for one in document["devices"]}
    if device is None and len(found) > 1:
        raise StudyError(f"{source} plans {len(found)} devices", hint=f"choose one: --device {next(iter(found))}")
    name = device or next(iter(found), "")
    if name not in found:
        raise StudyError(f"{source} is a plan for {', '.join(found)}, not for {name}", hint="choose one of them")
    idle = [tenant for tenant, seat in found[name]["tenants"].items() if not isinstance(seat.get("runs"), dict)]
    if idle:
        raise StudyError(f"{source} doesn't say what {idle[0]} runs", hint="plan from a tenants file that names it")
    return study_of(found[name], about=f"What {Path(source).name} expects of {name}, measured.")


def _written(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CotenantError(f"{path} can't be written: {error.strerror}", hint="choose another file") from None
