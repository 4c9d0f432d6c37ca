"""MIG slices of both sources together: inference (ParvaGPU) and training (MISO), what was measured on 7g given."""

from pathlib import Path

from cotenant.validation import miso, parvagpu
from cotenant.validation.measures import absolute_error
from cotenant.validation.result import Result, Target

NOTE = (
    "The target is for the two sources together, weighted by their rows. One by one they are under `parvagpu` and "
    "`miso`: inference lies below it, training above, and the latter says why."
)


def validate(data: Path) -> tuple[Result, ...]:
    """The rows of both."""
    inference, (training,) = parvagpu.traced_slices(data), miso.validate(data)
    rows = (*inference.rows, *training.rows)
    return (
        Result(
            data_set="mig",
            what="speed on MIG slices, what was measured on the whole GPU given, inference and training together",
            source=f"{parvagpu.SOURCE}; {miso.SOURCE}",
            split="As said under each of the two.",
            quantity="speed of a slice / speed of the whole GPU",
            unit="",
            rows=rows,
            measures=(absolute_error(rows, of="relative speed", target=Target(high=8.0)),),
            notes=(NOTE,),
        ),
    )
