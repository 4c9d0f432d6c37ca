"""Moves from a plan to another, cheapest first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.tenancy.plan_document import PlanDocument, PlanSeat


@dataclass(frozen=True, slots=True)
class PlanMove:
    """A step."""

    tenant: str
    change: str
    """`starts`, `stops`, `moves`, `restarts` (the sharing or share changes) or `adjusts` (at_once or rate changes)."""
    old: str
    new: str
    loads_bytes: int
    """Bytes to load; 0 if nothing is loaded."""


@dataclass(frozen=True, slots=True)
class _Seat:
    """A seat, where it is, and whose."""

    name: str
    of: str
    device: str
    sharing: str
    share: float | str | None
    seat: PlanSeat


_EFFORT = {"adjusts": 0, "stops": 1, "restarts": 2, "starts": 3, "moves": 4}


def moves_between(old: PlanDocument, new: PlanDocument) -> tuple[PlanMove, ...]:
    """Moves that lead from a plan to another.

    Devices of a kind are interchangeable: each device of the new plan is matched to the old device that already has
    most of its tenants. So are the replicas of a tenant.
    """
    before = _seats(old, {})
    after = _seats(new, _matched(old, new))
    tenants = dict.fromkeys(seat.of for seat in [*before, *after])
    pairs = [pair for tenant in tenants for pair in _paired(before, after, tenant)]
    steps = [move for move in (_move(_name(*pair), *pair) for pair in pairs) if move is not None]
    return tuple(sorted(steps, key=lambda move: (_EFFORT[move.change], move.loads_bytes, move.tenant)))


def _paired(before: Sequence[_Seat], after: Sequence[_Seat], tenant: str) -> list[tuple[_Seat | None, _Seat | None]]:
    """Old and new seats of a tenant's replicas, those with most in common first; None for what starts or stops."""
    olds = [seat for seat in before if seat.of == tenant]
    news = [seat for seat in after if seat.of == tenant]
    pairs: list[tuple[_Seat | None, _Seat | None]] = []
    for keys in (("device", "sharing", "share", "name"), ("device", "sharing", "share"), ("device",), ()):
        for new in list(news):
            same = (old for old in olds if all(getattr(old, key) == getattr(new, key) for key in keys))
            if (old := next(same, None)) is not None:
                pairs.append((old, new))
                olds.remove(old)
                news.remove(new)
    return [*pairs, *((None, new) for new in news), *((old, None) for old in olds)]


def _name(old: _Seat | None, new: _Seat | None) -> str:
    seat = new or old
    assert seat is not None
    return seat.name


def _move(name: str, old: _Seat | None, new: _Seat | None) -> PlanMove | None:
    if old is None and new is not None:
        return PlanMove(name, "starts", "", _place(new), new.seat.memory_bytes or 0)
    if old is not None and new is None:
        return PlanMove(name, "stops", _place(old), "", 0)
    assert old is not None
    assert new is not None
    if old.device != new.device:
        return PlanMove(name, "moves", _place(old), _place(new), new.seat.memory_bytes or 0)
    if (old.sharing, old.share) != (new.sharing, new.share):
        return PlanMove(name, "restarts", _place(old), _place(new), new.seat.memory_bytes or 0)
    before, after = old.seat, new.seat
    if (before.at_once, before.rate_rps) != (after.at_once, after.rate_rps):
        was, now = (f"{seat.at_once} at once, {seat.rate_rps:g}/s" for seat in (before, after))
        return PlanMove(name, "adjusts", was, now, 0)
    return None


def _place(seat: _Seat) -> str:
    share = "" if seat.share is None else f" {seat.share if isinstance(seat.share, str) else f'{seat.share:g}'}"
    return f"{seat.device} ({seat.sharing}{share})"


def _seats(plan: PlanDocument, names: Mapping[str, str]) -> list[_Seat]:
    return [
        _Seat(name, str(seat.tenant), names.get(device.name, device.name), device.sharing, seat.share, seat)
        for device, name, seat in plan.seats()
    ]


def _matched(old: PlanDocument, new: PlanDocument) -> dict[str, str]:
    """Old device names for the new plan's devices, matching those with most tenants in common first."""
    pairs = [
        (sum(name in before.tenants for name in after.tenants), after, before)
        for after in new.devices
        for before in old.devices
        if after.kind == before.kind
    ]
    matched: dict[str, str] = {}
    taken: set[str] = set()
    for common, after, before in sorted(pairs, key=lambda pair: -pair[0]):
        if common and after.name not in matched and before.name not in taken:
            matched[after.name] = before.name
            taken.add(before.name)
    others = [device.name for device in new.devices if device.name not in matched]
    for name in others:  # keep the new name unless an old device has it
        matched[name] = f"{name} (new)" if name in taken else name
    return matched
