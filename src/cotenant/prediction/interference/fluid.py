"""The prior for a GPU in closed form: slowdowns of thousands of mixes at once, from solo summaries alone.

Kernels queue for the SMs in order of arrival. In one cycle of a neighbour (a kernel that works for ``w`` and then
starts, drains or waits for its host for ``z``), a victim with kernels of length ``y`` runs one kernel and everything
that fits into ``z``: it loses ``w`` of every ``w + z + y``. The last blocks of a long kernel leave some room, so the
loss is smaller where ``w`` is much longer than ``y``. Host time before and after a request is long compared with
kernels, so the victim's speeds are averaged there, not its times. Total work never exceeds the device's capacity.

It agrees with the event engine for time-slicing. Side by side, the two are different laws (see
docs/concepts/prediction.md).
"""

from itertools import product

import numpy as np

from cotenant.prediction.interference.gpu_profiles import GpuProfiles
from cotenant.prediction.interference.mixes import placed, present
from cotenant.prediction.kernels.columns import Bools, Floats, Ints

DRAIN = 0.07
"""Fraction of a long kernel's work during which others can start. Chosen to agree with an earlier event engine on the
pairs of Gavel's jobs; measured pairs were not used."""
_SHARPNESS = 8
"""Host and device overlap almost perfectly: the longer one counts."""
_ROUNDS = 25
_CHUNK = 50_000


def side_by_side(profiles: GpuProfiles, mixes: Ints) -> Floats:
    """Log slowdowns where kernels of all tenants run on the device at once (MPS, streams).

    Args:
        profiles: Profiles of all tenants.
        mixes: Rows of tenant indices.

    Returns:
        Rows x places; NaN in empty places.
    """
    return _in_chunks(profiles, mixes, turns=False)


def in_turns(profiles: GpuProfiles, mixes: Ints) -> Floats:
    """The same where tenants with work take equal turns on the device (time-slicing)."""
    return _in_chunks(profiles, mixes, turns=True)


def _in_chunks(profiles: GpuProfiles, mixes: Ints, *, turns: bool) -> Floats:
    parts = [_logs(profiles, mixes[first : first + _CHUNK], turns) for first in range(0, len(mixes), _CHUNK)]
    return np.concatenate(parts) if parts else np.empty(mixes.shape)


def _logs(profiles: GpuProfiles, mixes: Ints, turns: bool) -> Floats:
    there = present(mixes)
    device = placed(profiles.device_ns, mixes, 1.0)
    launch = placed(profiles.launch_ns, mixes, 0.0)
    serial = placed(profiles.serial_ns, mixes, 0.0)
    burst = _longer(device, launch)
    alone = burst + serial
    if turns:
        held = np.where(there, device, 0.0)
        lost = _lost_in_turns(device, burst, there)
    else:
        held = placed(profiles.work_ns * profiles.occupancy, mixes, 0.0)
        lost = _lost_side_by_side(profiles, mixes, device, burst, there)
    time, crowd = alone.copy(), np.ones((len(mixes), 1))
    for _ in range(_ROUNDS):
        active = np.where(there, 1 - serial / time, 0.0)
        stretched = device * crowd / _mean_speed(lost, active)
        time = _longer(stretched, launch) + serial
        used = (held / time).sum(axis=1, keepdims=True)
        crowd *= np.maximum(used, 1 / crowd)  # at least 1: grows while demand exceeds the device
    return np.where(there, np.log(time / alone), np.nan)


def _lost_in_turns(device: Floats, burst: Floats, there: Bools) -> Floats:
    """Fraction each neighbour adds to the victim's device time: rows x victims x neighbours."""
    busy = np.where(there, device / burst, 0.0)
    return _without_self(np.broadcast_to(busy[:, None, :], (*busy.shape, busy.shape[1])))


def _lost_side_by_side(profiles: GpuProfiles, mixes: Ints, device: Floats, burst: Floats, there: Bools) -> Floats:
    work = placed(profiles.work_ns, mixes, 0.0)
    kernels = placed(profiles.kernels, mixes, 1.0)
    holds, moves = placed(profiles.occupancy, mixes, 1.0), placed(profiles.dram, mixes, 0.0)
    w = (work / kernels)[:, None, :]
    z = np.maximum(burst - work, 0.0) / kernels
    y = (device / kernels)[:, :, None]
    lost = w / (z[:, None, :] + y + DRAIN * w)
    return _without_self(np.where(there[:, None, :], lost * _conflict(holds, moves), 0.0))


def _conflict(holds: Floats, moves: Floats) -> Floats:
    """Fraction of a victim's speed that a working neighbour takes: held SMs, and bandwidth beyond an even part."""
    own, other = holds[:, :, None], holds[:, None, :]
    of_sms = np.clip((own + other - 1) / own, 0.0, 1.0)
    left = np.maximum(1 - moves[:, None, :], 0.5)
    of_dram = 1 - np.minimum(left / np.maximum(moves[:, :, None], 1e-9), 1.0)
    return np.asarray(np.maximum(of_sms, of_dram))


def _without_self(lost: Floats) -> Floats:
    places = lost.shape[1]
    return np.asarray(np.where(np.eye(places, dtype=bool)[None], 0.0, lost))


def _mean_speed(lost: Floats, active: Floats) -> Floats:
    """Mean speed of each victim over all combinations of active neighbours."""
    rows, places = active.shape
    speed = np.zeros((rows, places))
    for victim in range(places):
        others = [place for place in range(places) if place != victim]
        for states in product((0, 1), repeat=len(others)):
            weight, load = np.ones(rows), np.ones(rows)
            for other, on in zip(others, states, strict=True):
                weight *= active[:, other] if on else 1 - active[:, other]
                if on:
                    load += lost[:, victim, other]
            speed[:, victim] += weight / load
    return speed


def _longer(first: Floats, second: Floats) -> Floats:
    top = np.maximum(np.maximum(first, second), 1e-300)
    return np.asarray(top * ((first / top) ** _SHARPNESS + (second / top) ** _SHARPNESS) ** (1 / _SHARPNESS))
