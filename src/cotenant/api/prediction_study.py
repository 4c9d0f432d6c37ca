"""What `predict` is asked about: a study, or the tenants of a plan at their own rates."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.errors import StudyError

if TYPE_CHECKING:
    from cotenant.planning.tenants_file import PlannedEntry
    from cotenant.study.model import Study


def study_to_predict(study: "str | Path | Study", *, to_measure: bool = False) -> "Study":
    """A study as it is; of a plan's tenants file, all pairs under all ways to share.

    Args:
        study: A built-in study's name, a file, or a study.
        to_measure: Mixes to measure are wanted too, which takes a study.

    Raises:
        StudyError: It is neither, or a tenants file where a study is needed.
    """
    from cotenant.study.files import load_study, study_from
    from cotenant.study.model import Study

    if isinstance(study, Study):
        return study
    try:
        return load_study(study)
    except StudyError:
        tenants = _planned(Path(study))
        if not tenants:
            raise
    if to_measure:
        raise StudyError(
            f"{study} holds the tenants of a plan; mixes to measure are suggested for a study",
            hint=f"write the study first: cotenant plan {study} --devices DEVICE --study measure.yaml",
        )
    return study_from({"name": Path(study).stem, "tenants": tenants, "mixes": ["solo", "pairs"], "sharing": "all"})


def _planned(path: Path) -> dict[str, Any]:
    """Tenants of a plan in the format of a study; empty if the file has none."""
    from cotenant.planning.tenants_file import read_tenants

    try:
        found = read_tenants(path).tenants
    except StudyError:
        return {}
    return {name: _entry(entry) for name, entry in found.items()}


def _entry(entry: "PlannedEntry") -> dict[str, Any]:
    """At its smallest batch, because that is what a request waits for under a light load."""
    from cotenant.api.planning.study import runs_of

    batch = entry.batch[0]
    study: dict[str, Any] = {**runs_of(entry), "batch": batch}
    if entry.software:
        study["software"] = entry.software[0]
    if entry.load is not None:
        study["load"] = entry.model_dump(mode="json", include={"load"})["load"]
    elif entry.rate:
        study["load"] = f"poisson({entry.rate / batch:.6g})"
    limits = [one for one in entry.slo or () if one.metric == "latency"]
    if limits:
        study["slo"] = {one.label: f"{one.limit_ms:g}ms" for one in limits}
    return study
