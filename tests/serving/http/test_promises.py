"""A server judges its promises while it serves, the way `compare` judges its record."""

import asyncio
import io
from types import SimpleNamespace

from rich.console import Console

from cotenant.reporting.terminal.server import closing_lines, status_parts
from cotenant.scheduling import Contract, DeviceScheduler, TenantAdded, TenantCosts, chunk_cost
from cotenant.serving.conductor import Conductor
from cotenant.serving.measures import Measures
from cotenant.serving.promises import MOST_BLOCKS, BlockCounts, PromiseCounts
from cotenant.serving.recording import Recorder
from cotenant.serving.tenants_file import TenantsFile
from cotenant.serving.tickets import BAD_INPUT, RequestOutcome
from cotenant.serving.workers.crew import Crew
from cotenant.serving.workers.station import Ended
from cotenant.serving.workers.work import ChunkProgress
from cotenant.store.compared import compare_plan
from cotenant.tenancy.plan_document import PlanDocument
from tests.serving.http.front import front

SEATS = {
    "bert": {"runs": {"workload": "bert-base-mini"}, "expected": {"p99": {"limit_ms": 200.0, "upper_ms": 90.0}}},
    "gpt": {
        "runs": {"workload": "gpt2-mini", "mode": "generate"},
        "expected": {"ttft p95": {"limit_ms": 150.0}, "tpot p95": {"limit_ms": 20.0}},
    },
}
PLAN = PlanDocument.model_validate({"plan": 2, "devices": [{"name": "cpu", "tenants": SEATS}]})
FILE = TenantsFile.model_validate(
    {
        "tenants": {
            "bert": {"workload": "bert-base-mini", "slo": "200ms", "promised": SEATS["bert"]["expected"]},
            "conv": {"workload": "resnet18-mini", "slo": "1s"},
            "gpt": {"workload": "gpt2-mini", "mode": "generate", "slo": {"ttft p95": "150ms", "tpot p95": "20ms"}},
        }
    }
)


def outcome(tenant, at, first, done, *, tokens=0, why=None):
    return RequestOutcome(tenant, at, at, at + first, at + done, 0.01, 0.01, True, why, tokens)


OUTCOMES = [
    *(outcome("bert", 100 + place / 10, 0.05, 0.25 if place % 4 == 0 else 0.1) for place in range(400)),
    outcome("bert", 141.0, 0.05, 0.1, why=BAD_INPUT),
    *(outcome("gpt", 100 + place / 10, 0.1, 0.1 + 0.03 * 4, tokens=5) for place in range(100)),
]


def served(root):
    async def run():
        async with front() as client:
            service = client.service
            service.file = FILE
            counts = PromiseCounts(service)
            service.judged, service.promises = counts.judged, counts.to_json
            recorder = Recorder(service, FILE, root)
            recorder.open()
            for one in OUTCOMES:
                service.measures.add(one)
            status = (await client.get("/status")).json()
            await recorder.close()
            return recorder.path, status, service.judged()

    return asyncio.run(run())


def test_the_server_and_compare_count_the_same_requests(tmp_path):
    path, status, judged = served(tmp_path)
    (tmp_path / "plan.yaml").write_text(PLAN.to_yaml())
    compared = compare_plan(tmp_path / "plan.yaml", [path]).rows
    live = {(row.tenant, row.objective): row for row in judged}
    assert [(row.tenant, row.objective, row.in_time, row.requests, row.verdict) for row in compared] == [
        ("bert", "p99", 300, 400, "missed"),
        ("gpt", "ttft p95", 100, 100, "kept"),
        ("gpt", "tpot p95", 0, 100, "missed"),
    ]
    for row in compared:
        beside = live[row.tenant, row.objective]
        assert (beside.in_time, beside.requests, beside.verdict) == (row.in_time, row.requests, row.verdict)
    shown = {(row["tenant"], row["objective"]): row for row in status["promises"]}
    assert shown["bert", "p99"]["upper_ms"] == 90.0
    assert shown["conv", "p99"]["verdict"] == "can't tell"
    assert len(shown["bert", "p99"]["minutes_ms"]) == 15
    console = Console(width=120, file=io.StringIO())
    console.print(*status_parts(status))
    assert "1 of 4 objectives kept; missed: bert, gpt; can't tell: conv" in console.file.getvalue()


class StillWorker:
    """Remembers which chunk it should run; whoever tests says when its work ended."""

    def take(self, request, tenant, work):
        pass

    def free(self, requests):
        pass

    def start(self, chunk):
        self.chunk = chunk

    def queue(self, after, chunk):
        pass


def test_an_answer_after_the_end_of_the_work_is_late_in_every_count():
    now, worker, measures = [100.0], StillWorker(), Measures()
    service = SimpleNamespace(measures=measures, file=FILE, tenants=["bert"], record=lambda: None)
    counts = PromiseCounts(service)

    async def run():
        conductor = Conductor(DeviceScheduler([], now=100.0), Crew(), observe=measures.add, clock=lambda: now[0])
        conductor.crew.assign("bert", worker)
        conductor.tell(TenantAdded(100.0, Contract("bert", 0.2), TenantCosts((chunk_cost(0.1),))))
        for answered_after in (0.15, 0.3):  # the work has ended after 0.1 s both times
            began = now[0]
            waiting = conductor.serve("bert", None)
            now[0] += answered_after
            progress = ChunkProgress({waiting.number: "answer"})
            conductor.chunk_ended(Ended(worker.chunk.version, began, began + 0.1, None, progress))
        conductor.close()
        measures.settle()

    asyncio.run(run())
    promised = next(row for row in counts.judged() if row.tenant == "bert")
    assert (promised.in_time, promised.requests) == (1, 2)
    assert closing_lines(service) == ["bert: 1 of 2 requests in time (50 %)"]


def test_blocks_stay_bounded_and_lose_no_request():
    counts = BlockCounts()
    for second in range(100_000):
        counts.add(1000.0 + second, met=second % 10 != 0)
    stretches = counts.stretches()
    assert len(stretches) <= MOST_BLOCKS
    assert sum(int(one.sizes.sum()) for one in stretches) == 100_000
    assert sum(int(one.hits.sum()) for one in stretches) == 90_000
