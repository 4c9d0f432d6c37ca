"""Moves from one plan to another, cheapest first."""

from collections.abc import Mapping, Sequence
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


_Seat = Mapping[str, Any]
_EFFORT = {"adjusts": 0, "stops": 1, "restarts": 2, "starts": 3, "moves": 4}


def moves(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Move, ...]:
    """Moves that lead from one plan document to another.

    Devices of one kind are interchangeable: each device of the new plan is matched to the old one that already has
    most of its tenants. So are the replicas of a tenant.
    """
    before = _seats(old, {})
    after = _seats(new, _matched(old, new))
    tenants = dict.fromkeys(seat["of"] for seat in [*before, *after])
    pairs = [pair for tenant in tenants for pair in _paired(before, after, tenant)]
    steps = [move for move in (_move(_name(*pair), *pair) for pair in pairs) if move is not None]
    return tuple(sorted(steps, key=lambda move: (_EFFORT[move.change], move.loads_bytes, move.tenant)))


def _paired(before: Sequence[_Seat], after: Sequence[_Seat], tenant: str) -> list[tuple[_Seat | None, _Seat | None]]:
    """Old and new seats of a tenant's replicas, those with most in common first; None for what starts or stops."""
    olds = [seat for seat in before if seat["of"] == tenant]
    news = [seat for seat in after if seat["of"] == tenant]
    pairs: list[tuple[_Seat | None, _Seat | None]] = []
    for keys in (("device", "sharing", "share", "name"), ("device", "sharing", "share"), ("device",), ()):
        for new in list(news):
            same = (old for old in olds if all(old.get(key) == new.get(key) for key in keys))
            if (old := next(same, None)) is not None:
                pairs.append((old, new))
                olds.remove(old)
                news.remove(new)
    return [*pairs, *((None, new) for new in news), *((old, None) for old in olds)]


def _name(old: _Seat | None, new: _Seat | None) -> str:
    return str((new or old or {})["name"])


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


def _seats(document: Mapping[str, Any], names: Mapping[str, str]) -> list[_Seat]:
    return [
        {
            **seat,
            "name": name,
            "of": seat.get("tenant", name),
            "device": names.get(device["name"], device["name"]),
            "sharing": device["sharing"],
        }
        for device in document["devices"]
        for name, seat in device["tenants"].items()
    ]


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
