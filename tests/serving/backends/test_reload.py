"""A file that changes under load: the new one takes effect, and no accepted request is lost."""

import asyncio

import pytest
import yaml

from cotenant.errors import StudyError
from cotenant.serving.http.app import Application
from cotenant.serving.reloader import opened
from cotenant.serving.tenants_file import TenantsFile, read_tenants
from tests.serving.backends.behind import run, scripted
from tests.serving.http.front import Client
from tests.support import pace

ASK = {"inputs": [{"name": "ids", "datatype": "INT64", "shape": [1, 1], "data": [1]}]}


def tenants_file(port, *, parallel=4, device="cpu", names=("net",), **more):
    backend = {"v2": f"http://127.0.0.1:{port}", "model": "scripted", "parallel": parallel, "cost": "5ms"}
    tenants = {name: {"slo": "20s", "backend": backend, **more} for name in names}
    return TenantsFile.model_validate({"tenants": tenants, "device": device})


class Reloading:
    """A server whose file can be replaced."""

    def __init__(self, server, port):
        self.server, self.port = server, port

    async def __aenter__(self):
        self.file = tenants_file(self.port)
        self.opening = opened(self.file, again=lambda: self.file)
        self.service = await self.opening.__aenter__()
        self.client = Client(Application(self.service), self.service)
        return self

    async def __aexit__(self, *failure):
        await self.opening.__aexit__(*failure)

    async def take_over(self, **changes):
        self.file = tenants_file(self.port, **changes)
        return await self.client.post("/reload")


def reloading(scenario, **script):
    async def main():
        async with scripted(**script) as (server, port), Reloading(server, port) as one:
            return await scenario(one)

    return run(main)


def test_no_accepted_request_is_lost_when_workers_are_replaced_under_load():
    async def scenario(one):
        statuses, stop = [], asyncio.Event()

        async def ask_on():
            while not stop.is_set():
                statuses.append((await one.client.post("/v2/models/net/infer", ASK)).status)

        clients = [asyncio.ensure_future(ask_on()) for _ in range(6)]
        answers = []
        for parallel in (2, 6, 3):
            await asyncio.sleep(0.1)
            before = one.service.conductor_of("net")
            answers.append((await one.take_over(parallel=parallel)).json())
            assert one.service.conductor_of("net") is not before
        await asyncio.sleep(0.1)
        stop.set()
        await asyncio.gather(*clients)
        while one.service.leaving:
            await asyncio.sleep(0.01)
        return statuses, answers, one.service.measures.of("net"), one.server.served

    statuses, answers, measured, served = reloading(scenario, sleep_s=0.02)
    assert [one["workers_replaced"] for one in answers] == [True] * 3
    assert len(statuses) > 10
    assert set(statuses) == {200}
    assert measured.served == len(statuses) == served
    assert not measured.why


def test_an_accepted_request_is_finished_by_the_old_workers_and_counts_in_a_drain():
    async def scenario(one):
        early = asyncio.ensure_future(one.client.post("/v2/models/net/infer", ASK))
        while not one.service.in_flight:
            await asyncio.sleep(0.001)
        await one.take_over(names=("other",))
        gone = await one.client.post("/v2/models/net/infer", ASK)
        in_flight = one.service.in_flight
        drained = await one.service.drain(20)
        return (await early).status, gone.status, in_flight, drained

    assert reloading(scenario, sleep_s=pace.seconds(0.4)) == (200, 404, 1, True)


def test_new_contracts_alone_keep_the_workers():
    async def scenario(one):
        before = one.service.conductor_of("net")
        answer = await one.take_over(slo="10s", share="50%")
        standing = one.service.standings()[0]
        return answer.json(), one.service.conductor_of("net") is before, standing.share_rate, one.service.tenants["net"]

    answer, same, share, served = reloading(scenario)
    assert answer == {"changed": True, "workers_replaced": False, "tenants": ["net"]}
    assert same
    assert share == 0.5
    assert served.contract.objective_s == 10


def test_shares_can_be_swapped_without_exceeding_one():
    async def scenario(one):
        await one.take_over(names=("a", "b"))

        def shares(a, b):
            file = tenants_file(one.port, names=("a", "b"))
            tenants = {
                name: tenant.model_copy(update={"share": share})
                for (name, tenant), share in zip(file.tenants.items(), (a, b), strict=True)
            }
            return file.model_copy(update={"tenants": tenants})

        found = []
        for a, b in ((90.0, 10.0), (10.0, 90.0), (50.0, 50.0)):
            one.file = shares(a, b)
            answer = await one.client.post("/reload")
            found.append((answer.json()["workers_replaced"], [each.share_rate for each in one.service.standings()]))
        return found

    assert reloading(scenario) == [(False, [0.9, 0.1]), (False, [0.1, 0.9]), (False, [0.5, 0.5])]


def test_an_invalid_file_changes_nothing():
    async def scenario(one):
        unchanged = await one.client.post("/reload")
        elsewhere = await one.take_over(device="sim:a100-sxm4-40gb")
        impossible = await one.take_over(slo="1ms")
        still = await one.client.post("/v2/models/net/infer", ASK)
        return unchanged.json(), elsewhere, impossible, still.status

    unchanged, elsewhere, impossible, still = reloading(scenario)
    assert unchanged["changed"] is False
    assert elsewhere.status == 409
    assert "this server runs on cpu" in elsewhere.json()["error"]
    assert impossible.status == 409
    assert "can't meet its objective of 1.00 ms" in impossible.json()["error"]
    assert still == 200


def test_without_a_file_there_is_nothing_to_reload():
    async def main():
        async with scripted() as (_, port), opened(tenants_file(port)) as service:
            return await Client(Application(service), service).post("/reload")

    assert run(main).status == 404


@pytest.mark.parametrize(
    ("tenant", "sentence"),
    [
        ({"slo": "1s"}, "workload is missing"),
        ({"slo": "1s", "workload": "bert-base-mini", "backend": {"v2": "http://a:1"}}, "either a workload"),
        ({"slo": "1s", "backend": {}}, "a backend needs exactly one address"),
        ({"slo": "1s", "backend": {"openai": "http://a:1", "v2": "http://a:1"}}, "a backend needs exactly one address"),
        ({"slo": "1s", "backend": {"openai": "ftp://a"}}, "is not an address"),
        ({"slo": "1s", "backend": {"openai": "http://user:secret@a"}}, "password"),
        ({"slo": "1s", "backend": {"openai": 7}}, "is not an address"),
        ({"slo": "1s", "backend": {"v2": "http://a:1", "sleep": True}}, "sleep requires openai"),
        ({"slo": "1s", "backend": {"openai": "http://a:1", "key_env": "A B"}}, "environment variable"),
    ],
)
def test_a_backends_entry_is_validated(tmp_path, tenant, sentence):
    path = tmp_path / "tenants.yaml"
    path.write_text(yaml.safe_dump({"tenants": {"one": tenant}}))
    with pytest.raises(StudyError) as caught:
        read_tenants(path)
    assert sentence in " ".join(caught.value.problems)
