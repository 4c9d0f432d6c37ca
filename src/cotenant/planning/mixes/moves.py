"""Moves from one plan to another, cheapest first."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Move:
    """One step."""

    tenant: str
    change: str
    """`starts`, `stops`, `moves`, `restarts` (the sharing or share changes) or `adjusts` (batch or rate changes)."""
    old: str
    new: str
    loads_bytes: int
    """Bytes to load; 0 if nothing is loaded."""


_EFFORT = {"adjusts": 0, "stops": 1, "restarts": 2, "starts": 3, "moves": 4}


def moves(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Move, ...]:
    """Moves that lead from one plan document to another.

    Devices of one kind are interchangeable: each device of the new plan is matched to the old one that already has
    most of its tenants.
    """
    before = _seats(old, {})
    after = _seats(new, _matched(old, new))
    found = [_move(name, before.get(name), after.get(name)) for name in dict.fromkeys([*before, *after])]
    steps = [move for move in found if move is not None]
    return tuple(sorted(steps, key=lambda move: (_EFFORT[move.change], move.loads_bytes, move.tenant)))


def _move(name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> Move | None:
    if old is None and new is not None:
        return Move(name, "starts", "", _place(new), int(new["memory_bytes"]))
    if old is not None and new is None:
        return Move(name, "stops", _place(old), "", 0)
    assert old is not None
    assert new is not None
    if old["device"] != new["device"]:
        return Move(name, "moves", _place(old), _place(new), int(new["memory_bytes"]))
    if (old["sharing"], old.get("share")) != (new["sharing"], new.get("share")):
        return Move(name, "restarts", _place(old), _place(new), int(new["memory_bytes"]))
    if (old["batch"], old["rate_rps"]) != (new["batch"], new["rate_rps"]):
        change = f"batch {old['batch']} at {old['rate_rps']:g}/s", f"batch {new['batch']} at {new['rate_rps']:g}/s"
        return Move(name, "adjusts", *change, 0)
    return None


def _place(seat: Mapping[str, Any]) -> str:
    share = f" {seat['share']}" if seat.get("share") is not None else ""
    return f"{seat['device']} ({seat['sharing']}{share})"


def _seats(document: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    return {
        name: {**seat, "device": names.get(device["name"], device["name"]), "sharing": device["sharing"]}
        for device in document["devices"]
        for name, seat in device["tenants"].items()
    }


def _matched(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """Old device names for the new plan's devices, matching those with most tenants in common first."""
    pairs = [
        (sum(name in before["tenants"] for name in after["tenants"]), after, before)
        for after in new["devices"]
        for before in old["devices"]
        if after["kind"] == before["kind"]
    ]
    matched: dict[str, str] = {}
    taken: set[str] = set()
    for common, after, before in sorted(pairs, key=lambda pair: -pair[0]):
        if common and after["name"] not in matched and before["name"] not in taken:
            matched[after["name"]] = before["name"]
            taken.add(before["name"])
    others = [device["name"] for device in new["devices"] if device["name"] not in matched]
    for name in others:  # keep the new name unless an old device has it
        matched[name] = f"{name} (new)" if name in taken else name
    return matched
