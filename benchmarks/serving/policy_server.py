"""`cotenant serve` with a given policy, so that baselines run in the very same server.

    policy_server.py cotenant-shares|cotenant-equal|edf-chunks|edf TENANTS PORT DEVICE

Writes the server's measured costs to TENANTS.costs.json beside the tenants file, and at its end the times of its
decisions and the gaps between chunks to TENANTS.seen.json.
"""

import atexit
import json
import statistics
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from cotenant.cli.main import main
from cotenant.scheduling import ChunkDone, Event, Instruction, Scheduler, Shed, TenantAdded
from cotenant.scheduling.baselines import EarliestDeadline
from cotenant.serving import generation
from cotenant.serving.processes.written import costs_out

NAME, TENANTS, PORT, DEVICE = sys.argv[1:]


class WatchedScheduler(Scheduler):
    """Records what it learns and the time of its decisions."""

    def __init__(self, *args: Any, **more: Any) -> None:
        policy = EarliestDeadline(chunks=NAME == "edf-chunks") if NAME.startswith("edf") else None
        super().__init__(*args, **more, policy=policy)
        self._costs: dict[str, Any] = {}
        self._took_us: list[float] = []
        self._gaps_us: list[float] = []
        self._speeds: list[float] = []
        self._ratios: dict[str, list[float]] = defaultdict(list)
        self._shed: Counter[str] = Counter()
        self._ended = 0.0
        self._follows = False
        atexit.register(self._leave)

    def handle(self, event: Event) -> list[Instruction]:
        """As the scheduler, recorded."""
        if isinstance(event, TenantAdded):
            self._costs[event.contract.tenant] = costs_out(event.costs)
            Path(TENANTS).with_suffix(".costs.json").write_text(json.dumps(self._costs))
        elif isinstance(event, ChunkDone):
            if self._follows:
                self._gaps_us.append(1e6 * (event.began - self._ended))
            self._ended, self._follows = event.ended, event.started is not None
            self._speeds.append(self.speed)
            self._compare(event)
        begin = time.perf_counter_ns()
        out = super().handle(event)
        self._took_us.append((time.perf_counter_ns() - begin) / 1e3)
        self._shed.update(f"{one.tenant}: {one.why}" for one in out if isinstance(one, Shed))
        return out

    def _compare(self, event: ChunkDone) -> None:
        running = self._slots[event.slot].running
        if running is not None:
            chunk = running.chunk
            piece = f"{chunk.tenant} {'steps' if chunk.steps else chunk.stage} batch {len(chunk.requests)}"
            self._ratios[piece].append((event.ended - event.began) / chunk.predicted_s)

    def _leave(self) -> None:
        seen = {"decision_us": self._took_us, "gap_us": self._gaps_us, "speed": self._speeds}
        cuts = {name: statistics.quantiles(row, n=100) for name, row in seen.items() if len(row) > 1}
        report: dict[str, Any] = {
            name: {"n": len(seen[name]), "p50": row[49], "p90": row[89], "p99": row[98]} for name, row in cuts.items()
        }
        report["actual over predicted"] = {
            piece: [len(row), round(statistics.median(row), 2)] for piece, row in sorted(self._ratios.items())
        }
        report["shed"] = dict(self._shed)
        Path(TENANTS).with_suffix(".seen.json").write_text(json.dumps(report))


if __name__ == "__main__":
    generation.Scheduler = WatchedScheduler  # type: ignore[misc]
    sys.argv = ["cotenant", "serve", TENANTS, "--port", PORT, "--device", DEVICE]
    main()
