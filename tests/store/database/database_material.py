"""Files and runs to add, small and with known answers."""

import numpy as np

from cotenant.store.folder import RunFolder
from cotenant.tenancy.records import TrialRecords

HEADER = "exp,uuid,cabinet,node,ts,perf,freq,memfreq,temp,pwr,dev_id"
MEMBERS = ("GPU-aaaa0000-1", "GPU-bbbb0000-2", "GPU-cccc0000-3")


def longhorn(path, gpus=12, runs=10, slow=3, work="sgemm"):
    """One row per run; one GPU is hot, below the cap and slow."""
    random = np.random.default_rng(0)
    lines = [HEADER]
    for gpu in range(gpus):
        factor = 1.15 if gpu == slow else 1 + 0.01 * random.standard_normal()
        for run in range(runs):
            time = 1000 * factor * (1 + 0.0005 * random.standard_normal())
            watts, heat = (250.0, 82) if gpu == slow else (297 + random.standard_normal(), 65)
            cells = (work, f"GPU-{gpu:08d}-x", f"c{gpu // 4}", gpu % 4, 1_600_000_000 + 86_400 * run)
            lines.append(
                ",".join(map(str, (*cells, f"{time:.4f}", f"{1365 / factor:.0f}", 877, heat, f"{watts:.3f}", 0)))
            )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def stuck(path):
    """An nvidia-smi log whose power is constant while the GPU warms up."""
    lines = ["timestamp, uuid, power.draw [W], temperature.gpu"]
    lines += [
        f"2024/01/01 10:{second // 60:02d}:{second % 60:02d}.000, GPU-stuck-1, 46.19, {32 + second // 4}"
        for second in range(120)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def run(path, *, trials=4, identity="r1", first=0):
    """A run of one tenant on three members of a group at once; member 2 takes 10 % longer and draws more."""
    manifest = {"run": identity, "study_name": "variability", "device": "sim:v100*3", "simulated": True, "seed": 1}
    folder = RunFolder.open(path) if first else RunFolder.create(path, manifest | {"sessions": [{"host": "box"}]})
    for number in range(first, trials):
        folder.commit(trial(number))
    return path


def trial(number, settings="{}", slower=1.1, verdict="valid"):
    tenants = tuple(
        {"tenant": f"sgemm@{n}", "of": "sgemm", "workload": "sgemm", "batch": 1, "dtype": "float32", "member": member,
         "load": "closed(1)"}
        for n, member in enumerate(MEMBERS)
    )  # fmt: skip
    ns = [int(1e8 * (slower if n == 1 else 1)) for n in range(3)]
    done = [np.arange(1, 21, dtype=np.int64) * each for each in ns]
    starts = [ends - each for ends, each in zip(done, ns, strict=True)]
    size = 20 * 3
    at = np.tile(np.arange(0, 2_000_000_000, 100_000_000, dtype=np.int64), 9)
    sensors = {"power_w": 250.0, "sm_clock_mhz": 1400.0, "temperature_c": 60.0}
    return TrialRecords(
        trial={"trial": number, "block": number, "order": 0, "session": 0, "mix": "sgemm", "solo": True,
               "device": "sim:v100*3", "simulated": True, "sharing": "alone", "settings": settings, "load": "closed(1)",
               "seed": 1, "started_utc": f"2024-01-0{1 + number % 9}T10:00:00.000+00:00", "start_ns": 0,
               "window_start_ns": 0, "window_s": 2.0, "verdict": verdict, "failed_checks": [], "reasons": []},
        tenants=tenants,
        requests={"tenant": np.repeat(np.arange(3), 20), "seq": np.tile(np.arange(20, dtype=np.int64), 3),
                  "intended_ns": np.concatenate(starts), "started_ns": np.concatenate(starts),
                  "done_ns": np.concatenate(done), "in_window": np.ones(size, bool), "ok": np.ones(size, bool)},
        samples={"device": np.repeat(np.array(MEMBERS, dtype=object), 60), "t_ns": at,
                 "sensor": np.tile(np.repeat(np.array(list(sensors), dtype=object), 20), 3),
                 "value": np.tile(np.repeat(np.array(list(sensors.values())), 20), 3),
                 "unit": np.tile(np.repeat(np.array(["W", "MHz", "C"], dtype=object), 20), 3),
                 "source": np.full(180, "simulated v100", dtype=object)},
    )  # fmt: skip
