"""Served traffic becomes a run: the usual verbs read it, and the disk stays bounded."""

import asyncio

from cotenant.api.records import sql
from cotenant.api.show import show
from cotenant.serving import recording
from cotenant.serving.recording import Recorder
from cotenant.serving.tenants_file import TenantsFile
from cotenant.serving.tickets import BAD_INPUT, FAILED, RequestOutcome
from tests.serving.http.front import front

IDS = {"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, 8], "data": [9] * 8}]}
FILE = TenantsFile.model_validate(
    {
        "tenants": {
            "bert": {"workload": "bert-base-mini", "slo": "1s"},
            "conv": {"workload": "resnet18-mini", "slo": "1s"},
            "gpt": {"workload": "gpt2-mini", "slo": "1s", "mode": "generate"},
        }
    }
)


def recorded(root, scenario, **options):
    async def main():
        async with front(slow=("bert",)) as client:
            recorder = Recorder(client.service, FILE, root, **options)
            recorder.open()
            await scenario(client, recorder)
            await recorder.close()
            return recorder.path

    return asyncio.run(main())


def test_a_run_of_served_traffic_is_read_like_any_other(tmp_path):
    async def scenario(client, _):
        await asyncio.gather(*(client.post("/v2/models/bert/infer", IDS) for _ in range(8)))
        await client.post("/v1/completions", {"model": "gpt", "prompt": "a", "max_tokens": 3})

    path = recorded(tmp_path, scenario)
    counted = "select tenant, count(*), sum(ok::int), count(first_ns) from requests group by 1 order by 1"
    rows = sql(counted, [path]).rows
    assert rows[0][:2] == ("bert", 8)
    assert 0 < rows[0][2] < 8, "some were served, some refused"
    assert rows[1] == ("gpt", 1, 1, 1)
    tenants = {one.tenant for one in show([path]).tenants}
    assert {"bert", "gpt"} <= tenants


def test_a_request_that_no_model_can_answer_says_nothing_about_the_service(tmp_path):
    async def scenario(client, _):
        measures = client.service.measures
        served = RequestOutcome("gpt", 1.0, 1.0, 1.0, 1.1, 0.1, 0.1, True, None, 1)
        for one in (served, served._replace(met=False, why=BAD_INPUT), served._replace(met=False, why=FAILED)):
            measures.add(one)
        assert measures.of("gpt").asked == 2
        assert measures.of("gpt").lately.window(1.1, 60.0).attainment == 0.5

    path = recorded(tmp_path, scenario)
    [row] = sql("select count(*), sum(ok::int) from requests", [path]).rows
    assert tuple(row) == (2, 1)


def test_the_oldest_runs_go_when_the_disk_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "TRIALS", 1)

    async def scenario(client, recorder):
        for _ in range(3):
            await client.post("/v1/completions", {"model": "gpt", "prompt": "a", "max_tokens": 1})
            await recorder._write()

    (tmp_path / "served" / "not-ours").mkdir(parents=True)
    path = recorded(tmp_path, scenario, most_bytes=1)
    left = {one.name for one in path.parent.iterdir()}
    assert left == {"not-ours", path.name}
