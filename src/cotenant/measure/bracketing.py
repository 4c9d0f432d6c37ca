"""Solo trials around a run of servers: each with the others stopped, and once with all of the device's memory.

In the blocks, a server runs alone while the others are loaded but idle: restarting them for each trial would take
longer than measuring. Idle neighbours still hold memory, poll and keep caches small. These trials, before the first
block and after the last, measure that cost; they are recorded as separate blocks and never enter a slowdown.
"""

from collections.abc import Iterator
from typing import Literal

from cotenant.measure.calibration import FIRST_NUMBER
from cotenant.study.model import Study
from cotenant.study.windows import Windows
from cotenant.tenancy.nouns import Tenant, Trial
from cotenant.tenancy.records import STOPPED_BLOCK, WHOLE_BLOCK
from cotenant.tenancy.sharing import ALONE, Sharing

Moment = Literal["before", "after"]
_FIRST = {"before": FIRST_NUMBER + 100_000, "after": FIRST_NUMBER + 200_000, "whole": FIRST_NUMBER + 300_000}
SHORTEST_S = 2.0


def bracket_trials(study: Study, moment: Moment, lengths: Windows) -> Iterator[Trial]:
    """Trials to run then; each needs every other tenant stopped."""
    if not study.alone_stopped or study.fresh == "trial":  # the others are always stopped
        return
    servers = [name for name in study.measured() if study.tenants[name].server is not None]
    shared = any(len(mix.members) > 1 for mix in study.mix_list())
    for place, name in enumerate(servers):
        entry = study.tenants[name]
        tenant = entry.tenant(name, name, entry.arrivals or study.loads[0])
        if shared:
            yield _alone(tenant, study, _FIRST[moment] + place, STOPPED_BLOCK, lengths)
        whole = entry.server.with_whole_memory() if entry.server is not None else None
        if whole is not None and moment == "before":
            spec = tenant.workload.model_copy(update={"server": whole})
            roomy = tenant.model_copy(update={"workload": spec})
            yield _alone(roomy, study, _FIRST["whole"] + place, WHOLE_BLOCK, lengths)


def _alone(tenant: Tenant, study: Study, number: int, block: int, lengths: Windows) -> Trial:
    return Trial(
        number=number,
        block=block,
        order=number - FIRST_NUMBER,
        mix=tenant.name,
        tenants=(tenant,),
        sharing=Sharing(mode=ALONE),
        load=str(tenant.load),
        window_s=max(lengths.window_s, SHORTEST_S),
        lead_s=lengths.lead_s,
        seed=study.seed,
    )
