"""Small runs with known numbers: two tenants, alone and as a pair."""

import numpy as np

from cotenant.store.folder import RunFolder
from cotenant.tenancy.records import TrialRecords

STUDY = "tenants: {a: {workload: spin}, b: {workload: spin}}\nblocks: {min: 3, max: 12}\n"
LAYOUTS = ((("a",), "alone"), (("b",), "alone"), (("a", "b"), "processes"))


def write_run(
    path,
    *,
    day=1,
    study="pairs",
    device="cpu",
    simulated=False,
    slow=1.0,
    blocks=5,
    verdict="valid",
    tenants=None,
    **manifest,
):
    """A run folder; ``slow`` is a factor on the time of tenant `a`."""
    facts = {
        "run": f"2030010{day}T000000Z-{abs(hash(str(path))) % 10**8:08d}",
        "study_name": study,
        "study": STUDY,
        "device": device,
        "simulated": simulated,
        "state": "complete",
        "why": "all blocks done",
        "sessions": [{"started_utc": f"2030-01-0{day}T10:00:00+00:00", "host": "elsewhere", "pid": 1}],
        **manifest,
    }
    folder = RunFolder.create(path, facts)
    for block in range(blocks):
        add_block(folder, block, slow=slow, verdict=verdict, simulated=simulated, device=device, tenants=tenants)
    return folder


def add_block(folder, block, *, slow=1.0, verdict="valid", simulated=False, device="cpu", tenants=None):
    """One block: each alone, then both."""
    names = tenants or {"a": "a", "b": "b"}
    for order, (members, sharing) in enumerate(LAYOUTS):
        number = block * len(LAYOUTS) + order
        folder.commit(_trial(number, block, order, members, sharing, slow, verdict, simulated, device, names))


def _trial(number, block, order, members, sharing, slow, verdict, simulated, device, names):  # noqa: PLR0917 (a row)
    n, start = 30, 1_000_000_000 * (number + 1)
    rng = np.random.default_rng(number)
    time_ms = {"a": 2.0 * slow, "b": 5.0}
    each = [time_ms[name] * (1.0 if sharing == "alone" else 1.5) * (1 + 0.002 * rng.normal()) for name in members]
    took = (np.repeat(each, n) * 1e6).astype(np.int64)
    begin = start + np.tile(np.arange(n), len(members)) * 20_000_000
    mix = "+".join(names[name] for name in members)
    return TrialRecords(
        trial={
            "trial": number, "block": block, "order": order, "session": 0, "mix": mix, "solo": sharing == "alone",
            "device": device, "simulated": simulated, "sharing": sharing, "settings": "{}", "load": "closed(1)",
            "seed": number, "started_utc": f"2030-01-01T10:{number:02d}:00+00:00", "start_ns": start,
            "window_start_ns": start, "window_s": 1.0, "verdict": verdict,
            "failed_checks": [] if verdict == "valid" else ["steady"], "reasons": [],
        },
        tenants=tuple(
            {"tenant": names[name], "of": names[name], "workload": "spin", "batch": 1, "load": "closed(1)"}
            for name in members
        ),
        requests={
            "tenant": np.repeat(np.arange(len(members)), n), "seq": np.tile(np.arange(n), len(members)),
            "intended_ns": begin, "started_ns": begin, "done_ns": begin + took, "device_ns": took,
            "in_window": np.ones(took.size, bool), "ok": np.ones(took.size, bool),
        },
    )  # fmt: skip
