"""Requests, and the jobs they run in: alone, or batched at their first chunk."""

from math import sqrt
from typing import TYPE_CHECKING

from cotenant.scheduling.contract import Contract
from cotenant.scheduling.events import Arrived
from cotenant.scheduling.tenant import TenantState

if TYPE_CHECKING:
    from cotenant.scheduling.waiting import WaitingBlock

LONGEST_WAY = 0.05
"""Maximum delivery time to a client in plans, as a fraction of an objective."""


class Request:
    """A request. ``due`` orders it, never earlier than its contract; ``deadline`` is when its client gives up.

    ``way_s``: delivery time of its answer; it must be ready that much earlier.
    """

    __slots__ = (
        "arrived", "cache_bytes", "conforming", "cost_s", "deadline", "device_s", "due", "holds", "id", "priority",
        "scale", "steps", "way_s",
    )  # fmt: skip

    def __init__(self, event: Arrived, contract: Contract, steps: int, way_s: float = 0.0) -> None:
        within_s = contract.within_s(steps)
        promised = event.time + within_s
        self.id = event.request
        self.arrived = event.time
        self.deadline = promised if event.deadline is None else event.deadline
        self.way_s = min(way_s, LONGEST_WAY * within_s) if way_s else 0.0
        self.due = max(promised, self.deadline) - self.way_s
        self.scale = event.scale
        self.steps = steps
        self.priority = event.priority
        self.conforming = True
        self.cost_s = 0.0
        self.device_s = 0.0
        self.cache_bytes = event.cache_bytes or 0
        self.holds = False


class Job:
    """Requests of a tenant that advance together; ``stage`` and ``steps`` count done and remaining work.

    ``rest_s`` (p50) and ``plan_s`` (p90) are the remaining time as of the last ``reckon``, at which the device's speed
    had the ``stamp``. ``planned_due`` is the due time as the present plan sees it: earlier in a burst.
    """

    __slots__ = (
        "batch", "begun", "block", "conforming", "deadline", "due", "estimate", "late", "members", "order", "plan_s",
        "planned_due", "prefill_s", "rest_s", "scale", "stage", "stages", "stamp", "steps", "tenant",
    )  # fmt: skip

    def __init__(self, tenant: TenantState, request: Request, order: int) -> None:
        self.tenant = tenant
        self.estimate = tenant.estimate  # its own copy: the tenant's new model may have other chunks
        self.members = [request]
        self.batch = 1
        self.stage = 0
        self.stages = len(self.estimate.chunks)
        self.steps = request.steps
        self.scale = request.scale
        self.planned_due = self.due = request.due
        self.deadline = request.deadline - request.way_s
        self.conforming = request.conforming
        self.order = order
        self.begun = False
        self.late = False
        self.block: WaitingBlock | None = None
        """Where it waits; None if it doesn't."""
        self.rest_s = self.plan_s = self.prefill_s = 0.0
        self.stamp = -1

    def advance(self, steps: int) -> None:
        """A chunk of it was issued: this number of decode steps, or its next stage."""
        if steps:
            self.steps -= steps
        else:
            self.stage += 1
        self.begun = True
        self.stamp = -1

    def reckon(self) -> None:
        """Update the remaining time from the estimates."""
        estimate = self.estimate
        self.stamp = estimate.speed.stamp
        speed = estimate.speed.factor
        factor = self.scale * speed
        if self.batch > 1:
            factor *= estimate.costs.curve.at(self.batch)
        rest = self.prefill_s = estimate.rest_s[self.stage] * factor
        variance = estimate.rest_variance[self.stage] * factor * factor
        if self.steps:
            step = estimate.step
            assert step is not None
            rest += self.steps * step.p50_s * speed
            variance += self.steps * step.variance * speed * speed
        if self.block is not None:
            self.block.lengthen(rest - self.rest_s)
        self.rest_s = rest
        self.plan_s = rest + sqrt(variance)

    def join(self, other: "Job") -> None:
        """Absorb another job's requests; both have to be at their first chunk."""
        self.members += other.members
        self.batch = len(self.members)
        self.refresh()

    def leave(self, request: Request) -> None:
        """Remove a request. A batch that has started keeps its cost: the worker doesn't reshape it."""
        self.members.remove(request)
        self.stamp = -1
        if not self.begun:
            self.batch = max(1, len(self.members))
        if self.members:
            self.refresh()

    def cover(self) -> None:
        """Count it as conforming, by its first member."""
        self.members[0].conforming = self.conforming = True

    def refresh(self) -> None:
        """Derive due time, deadline, size and standing from the members."""
        members = self.members
        self.stamp = -1
        self.due = min(request.due for request in members)
        self.deadline = min(request.deadline - request.way_s for request in members)
        self.scale = max(request.scale for request in members)
        self.conforming = any(request.conforming for request in members)

    @property
    def ended(self) -> bool:
        """Whether nothing is left to issue."""
        return self.stage >= self.stages and self.steps == 0
