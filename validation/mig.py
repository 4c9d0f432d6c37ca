"""MIG slices of both sources together: inference (ParvaGPU) and training (MISO), what was measured on 7g given."""

from pathlib import Path

from validation import miso, parvagpu
from validation.measures import absolute_error
from validation.reading import AbsentData
from validation.result import Result, Row, Target

NOTES = (
    (
        "The target is for the two sources together, weighted by their rows. One by one they are under `parvagpu` and "
        "`miso`: inference lies below it, training above, and the latter says why."
    ),
    "Of inference, times of 1 to 5 processes on the whole GPU are given where measured; in the second line solos only.",
)


def validate(data: Path) -> tuple[Result, ...]:
    """The rows of both, or of the one that is at hand."""
    rows: list[Row] = []
    from_solos: list[Row] = []
    absent: list[AbsentData] = []
    for slices in (parvagpu.best_slices, miso.slices):
        try:
            best, plain = slices(data)
        except AbsentData as problem:
            absent.append(problem)
        else:
            rows += best
            from_solos += plain
    if len(absent) == 2:
        raise absent[0]
    return (
        Result(
            data_set="mig",
            what="speed on MIG slices, what was measured on the whole GPU given, inference and training together",
            source=f"{parvagpu.SOURCE}; {miso.SOURCE}",
            split="As said under each of the two.",
            quantity="speed of a slice / speed of the whole GPU",
            unit="",
            rows=tuple(rows),
            measures=(
                absolute_error(rows, of="relative speed", target=Target(high=8.0)),
                absolute_error(from_solos, of="relative speed, from solo times on the whole GPU and the architecture"),
            ),
            notes=() if absent else NOTES,
            left_out=tuple(f"One of the two is missing: {problem.message}" for problem in absent),
        ),
    )
