"""Pure: the scheduler that orders the requests of a device's tenants; costs come in as values.

Events go in, instructions come out (``DeviceScheduler.handle``). The same object runs in the server, in a dry run and
under simulated time (``cotenant.scheduling.simulation``).
"""

from cotenant.scheduling.contract import Contract, Fairness, ServiceClass, Settings, settle_shares
from cotenant.scheduling.costs import BatchCurve, ChunkCost, TenantCosts, chunk_cost, some_batches
from cotenant.scheduling.events import (
    Arrived,
    Cancelled,
    ChunkDone,
    ChunkLost,
    Event,
    RequestId,
    TenantAdded,
    TenantPaused,
    TenantRemoved,
    TenantResumed,
    Tick,
)
from cotenant.scheduling.instructions import (
    Chunk,
    Decision,
    Done,
    Dropped,
    Instruction,
    QueueAhead,
    Shed,
    StartChunk,
    Why,
)
from cotenant.scheduling.policy import Policy, PolicyChoice
from cotenant.scheduling.roster import TenantStanding
from cotenant.scheduling.scheduler import DeviceScheduler

__all__ = [
    "Arrived",
    "BatchCurve",
    "Cancelled",
    "Chunk",
    "ChunkCost",
    "ChunkDone",
    "ChunkLost",
    "Contract",
    "Decision",
    "DeviceScheduler",
    "Done",
    "Dropped",
    "Event",
    "Fairness",
    "Instruction",
    "Policy",
    "PolicyChoice",
    "QueueAhead",
    "RequestId",
    "ServiceClass",
    "Settings",
    "Shed",
    "StartChunk",
    "TenantAdded",
    "TenantCosts",
    "TenantPaused",
    "TenantRemoved",
    "TenantResumed",
    "TenantStanding",
    "Tick",
    "Why",
    "chunk_cost",
    "settle_shares",
    "some_batches",
]
