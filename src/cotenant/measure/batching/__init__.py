"""The largest batch that runs, and the cost of each batch size."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.measure.batching.impact import MARGIN, BatchAnswer, largest_batch, measure_impact, sizes_up_to
else:
    __getattr__, __dir__ = front(__name__, __file__)
