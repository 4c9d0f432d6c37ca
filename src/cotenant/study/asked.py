"""What the study behind a run asked for, read back from its manifest."""

from collections.abc import Mapping, Sequence
from typing import Any


def asked_interval(manifests: Sequence[Mapping[str, Any]]) -> float | None:
    """The precision of slowdowns (relative half-width) that the study asked for, if it is one study."""
    from pydantic import ValidationError

    from cotenant.errors import StudyError
    from cotenant.study.model import Study
    from cotenant.study.tree import NotYaml, read

    asked = {str(manifest.get("study", "")) for manifest in manifests}
    if len(asked) != 1 or not (text := asked.pop()):
        return None
    try:
        until = Study.model_validate(read(text).data).until
    except (StudyError, ValidationError, NotYaml):  # not measured by `run`, or by one that knew other keys
        return None
    return until.interval if until else None
