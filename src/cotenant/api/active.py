"""`run --active`: measure the most informative mixes, predict the others, stop when all are known well enough."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.api.progress_output import with_progress
from cotenant.measure.events import Listener, silent
from cotenant.paths import AnyPath
from cotenant.study.model import Study

if TYPE_CHECKING:
    from cotenant.prediction.interference import PredictedMixes
    from cotenant.study.active_rounds import ActiveResult

WIDTH = 0.1
"""Relative half-width at which a slowdown counts as known."""


@with_progress
def run_active(
    study: str | Path | Study,
    *,
    device: str | None = None,
    overrides: Sequence[str] = (),
    width: float = WIDTH,
    out: AnyPath = Path("runs"),
    listener: Listener | None = None,
    quiet: bool = False,  # noqa: ARG001 - `with_progress` reads it
) -> "ActiveResult":
    """Measure a study in rounds until every mix is known, measured or predicted.

    Each round measures mixes that say most about those still unknown, under the ways to share that are not known yet:
    many at once, because every round measures its tenants alone again. The first round measures all tenants alone and
    each in a mix at least; where predictions need solos, as on a CPU, each beside the study's next tenant.

    A measured mix gets no more blocks than the width takes: two of the study's fixed number per round, or as many as it
    takes to half the width instead of the study's `until`.

    Args:
        study: A built-in study's name, a YAML file, or a study.
        device: Overrides the study's device.
        overrides: `key=value` each, as `--set`.
        width: Relative half-width of the 90 % interval at which a slowdown counts as known.
        out: Parent folder of the rounds' run folders.
        listener: Receives progress events; default: a display on stderr, or a bar in a notebook.
        quiet: No progress.

    Raises:
        CotenantError: It can't be carried out. Finished measurements are kept.
    """
    from cotenant.measure.session import measured
    from cotenant.planning.inputs import predicted_mixes
    from cotenant.prediction.interference import NAME, text_of
    from cotenant.store.folder import write_whole
    from cotenant.study.active_rounds import in_rounds
    from cotenant.study.files import study_given

    given = study_given(study, overrides)

    def predict(runs: Sequence[Path], *, next_mixes: int, width: float | None) -> "PredictedMixes":
        return predicted_mixes(given, device=device, runs=runs, next_mixes=next_mixes, width=width)[0]

    result = in_rounds(
        given, width, predict=predict,
        measure=lambda part: measured(part, device=device, out=Path(out), listener=listener or silent),
    )  # fmt: skip
    write_whole(result.folders[-1] / NAME, text_of(result.prediction))
    return result
