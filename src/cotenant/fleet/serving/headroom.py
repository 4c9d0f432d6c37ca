"""When a plan's load outgrows its devices: the tenants without headroom, and the next step that is offered. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

FULL = 0.8
"""A tenant is short of headroom where a new request would take this part of its objective on every device."""
FOR_S = 5.0
"""For this long, without a break."""
AGAIN_S = 60.0
"""An offer is repeated after this long."""


@dataclass(slots=True)
class Headroom:
    """Follows the state of front ends over time."""

    since_s: dict[str, float] = field(default_factory=dict)
    offered_s: dict[str, float] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

    def short(self, state: Mapping[str, Any], now: float) -> list[str]:
        """Tenants to offer a step for, given a front end's state."""
        by_tenant: dict[str, list[Mapping[str, Any]]] = {}
        for device in state["devices"]:
            if device["up"]:
                for tenant, load in device["tenants"].items():
                    by_tenant.setdefault(tenant, []).append(load)
        found = []
        for tenant, loads in by_tenant.items():
            refused = sum(int(one["not_served"]) for one in loads)
            grew = refused > self.refused.get(tenant, refused)
            self.refused[tenant] = refused
            if not grew and any(one["finish_s"] < FULL * one["objective_s"] for one in loads):
                self.since_s.pop(tenant, None)
                continue
            began = self.since_s.setdefault(tenant, now)
            if now - began >= FOR_S and now - self.offered_s.get(tenant, float("-inf")) >= AGAIN_S:
                self.offered_s[tenant] = now
                found.append(tenant)
        return found


def next_step(tenant: str, state: Mapping[str, Any], spare: Sequence[str]) -> dict[str, Any]:
    """The step that gives a tenant more room: a device of the cluster that is free, else a new one."""
    serving = [one["device"] for one in state["devices"] if tenant in one["tenants"]]
    step: dict[str, Any] = {"tenant": tenant, "served_by": serving, "devices": len(state["devices"]) + 1}
    if spare:
        return {**step, "step": "use a free device", "device": spare[0]}
    return {**step, "step": "add a node", "device": None}
