"""Pure: the scheduler that orders the requests of one device's tenants; costs come in as values.

Events go in, instructions come out (``Scheduler.handle``). The same object runs in the server, in the check of a plan,
in a dry run and under simulated time (``cotenant.scheduling.simulation``).
"""

from cotenant.scheduling.baselines import EarliestDeadline, FirstCome
from cotenant.scheduling.contract import Contract, Fairness, ServiceClass, settle_shares
from cotenant.scheduling.costs import BatchCurve, ChunkCost, TenantCosts, chunk_cost, some_batches
from cotenant.scheduling.decisions import Decision
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
from cotenant.scheduling.instructions import Chunk, Done, Dropped, Instruction, QueueAhead, Shed, Start, Why
from cotenant.scheduling.policy import Choice, Policy
from cotenant.scheduling.scheduler import Scheduler
from cotenant.scheduling.settings import Settings
from cotenant.scheduling.standing import Standing

__all__ = [
    "Arrived",
    "BatchCurve",
    "Cancelled",
    "Choice",
    "Chunk",
    "ChunkCost",
    "ChunkDone",
    "ChunkLost",
    "Contract",
    "Decision",
    "Done",
    "Dropped",
    "EarliestDeadline",
    "Event",
    "Fairness",
    "FirstCome",
    "Instruction",
    "Policy",
    "QueueAhead",
    "RequestId",
    "Scheduler",
    "ServiceClass",
    "Settings",
    "Shed",
    "Standing",
    "Start",
    "TenantAdded",
    "TenantCosts",
    "TenantPaused",
    "TenantRemoved",
    "TenantResumed",
    "Tick",
    "Why",
    "chunk_cost",
    "settle_shares",
    "some_batches",
]
