"""Small trials for the store's tests: every relevant column can be set, the rest is plausible."""

from pathlib import Path
from typing import Any

import numpy as np

from cotenant.store import integrity, seals, views
from cotenant.store.folder import RunFolder
from cotenant.tenancy.records import TrialRecords

WINDOW_START_NS = 1_000_000_000


def connect(paths: list[Path]) -> Any:
    """A database of runs, locked like that of `cotenant sql`."""
    folders = views.find_folders(paths)
    files = {run: views.files_of(folder, integrity.usable(folder)) for run, folder in folders.items()}
    con = views.open_views(files)
    views.lock(con, files)
    return con


def trial(
    number: int = 0,
    *,
    tenants: tuple[str, ...] = ("bert-mini", "gpt2-mini"),
    requests: int = 4,
    load: str = "closed(1)",
    tenant_facts: dict[str, Any] | None = None,
    **facts: Any,
) -> TrialRecords:
    """A trial in which every tenant served ``requests`` requests of 1 ms, one after another, without an error."""
    codes = np.repeat(np.arange(len(tenants)), requests)
    seq = np.tile(np.arange(requests), len(tenants))
    started = WINDOW_START_NS + seq * 1_000_000
    return TrialRecords(
        trial={
            "trial": number,
            "block": number,
            "order": 0,
            "mix": "+".join(tenants),
            "solo": len(tenants) == 1,
            "device": "cpu",
            "simulated": False,
            "sharing": "alone" if len(tenants) == 1 else "processes",
            "settings": "{}",
            "load": load,
            "window_start_ns": WINDOW_START_NS,
            "window_s": 1.0,
            "verdict": "valid",
            "failed_checks": [],
            "reasons": [],
            **facts,
        },
        tenants=tuple(
            {"tenant": name, "of": name.split("#")[0], "load": load, **(tenant_facts or {})} for name in tenants
        ),
        requests={
            "tenant": codes,
            "seq": seq,
            "intended_ns": started,
            "started_ns": started,
            "first_ns": np.full(len(seq), -1),
            "done_ns": started + 1_000_000,
            "device_ns": np.full(len(seq), 900_000),
            "in_window": np.ones(len(seq), dtype=bool),
            "ok": np.ones(len(seq), dtype=bool),
        },
    )


def unsealed(run: RunFolder) -> RunFolder:
    """The run as written before seals existed."""
    for number in run.committed():
        (run.trial_path(number) / seals.NAME).unlink()
    run.update_manifest(sealed=False)
    return RunFolder.open(run.path)
