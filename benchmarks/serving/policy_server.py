"""`cotenant serve` with a given policy, so that baselines run in the very same server.

    policy_server.py cotenant-shares|cotenant-equal|edf-chunks|edf TENANTS PORT DEVICE

Writes, beside the tenants file, the server's measured costs to TENANTS.costs.json; to TENANTS.chunks.jsonl, for each
chunk, its begin and end, its tenant and stage (-1: decode steps), and its time relative to the measured cost, negative
after a gap; and at its end the times of its decisions and the gaps between chunks to TENANTS.seen.json.
"""

import atexit
import json
import statistics
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baselines import EarliestDeadline

from cotenant.cli.main import main
from cotenant.scheduling import ChunkDone, DeviceScheduler, Event, Instruction, Shed, TenantAdded, TenantCosts
from cotenant.serving import deployment
from cotenant.serving.workers import supervisor
from cotenant.serving.workers.wire import costs_out

NAME, TENANTS, PORT, DEVICE = sys.argv[1:]


@dataclass(frozen=True, slots=True)
class NoSpare(supervisor.Patience):
    """No spare process starts beside a measurement."""

    spare_s: float = 1e6


class WatchedScheduler(DeviceScheduler):
    """Records what it learns and the time of its decisions."""

    def __init__(self, *args: Any, **more: Any) -> None:
        policy = EarliestDeadline(chunks=NAME == "edf-chunks") if NAME.startswith("edf") else None
        super().__init__(*args, **more, policy=policy)
        self._costs: dict[str, Any] = {}
        self._base: dict[str, TenantCosts] = {}
        self._chunks = Path(TENANTS).with_suffix(".chunks.jsonl").open("w", buffering=1)
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
            self._base[event.contract.tenant] = event.costs
            self._costs[event.contract.tenant] = costs_out(event.costs)
            Path(TENANTS).with_suffix(".costs.json").write_text(json.dumps(self._costs))
        elif isinstance(event, ChunkDone):
            if self._follows:
                self._gaps_us.append(1e6 * (event.began - self._ended))
            self._speeds.append(self.speed)
            self._compare(event)
            self._ended, self._follows = event.ended, event.started is not None
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
            took_s = event.ended - event.began
            self._ratios[piece].append(took_s / chunk.predicted_s)
            base, batch = self._base[chunk.tenant], len(chunk.requests)
            if chunk.steps and base.step:
                cost_s = base.step.p50_s * chunk.steps * base.step_curve.at(batch)
            else:
                cost_s = base.chunks[chunk.stage].p50_s * base.curve.at(batch)
            sign = -1 if event.began - self._ended > self.settings.gap_s else 1
            stage = -1 if chunk.steps else chunk.stage
            row = [round(event.began, 5), round(event.ended, 5), chunk.tenant, stage, round(sign * took_s / cost_s, 3)]
            self._chunks.write(json.dumps(row) + "\n")

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
    deployment.Scheduler = WatchedScheduler  # type: ignore[misc]
    supervisor.Patience = NoSpare  # type: ignore[misc]
    sys.argv = ["cotenant", "serve", TENANTS, "--port", PORT, "--device", DEVICE]
    main()
