"""Who slows whom: from the natural variation of tenants that nothing was done to."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.analyse.neighbours.influence import Influence
    from cotenant.analyse.neighbours.totals import Floats, Totals
    from cotenant.analyse.neighbours.watched_evidence import (
        WatchedExplanation,
        WatchedRun,
        alone_factor,
        block_evidence,
        explain_watched,
        mean_factor,
    )
    from cotenant.analyse.neighbours.watching import (
        CPU_S,
        ENERGY_J,
        GPU_S,
        OF_PROCESS,
        Grant,
        TenantTotals,
        Watched,
        WatchedTenant,
        answer_sentences,
        bucket_points,
        grant_sentence,
        note_sentences,
        sentence,
        watched_of,
    )
else:
    __getattr__, __dir__ = front(__name__, __file__)
