"""What the database compares: the same work on the same device model; cores of different machines separately."""

from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from cotenant.analyse.variability.attribution import shared_power
from cotenant.api.db import gpu
from cotenant.reporting.elements.terminal import to_terminal
from cotenant.reporting.results.varied import gpu_elements
from cotenant.store.database.additions import add
from cotenant.store.database.database import Database
from cotenant.store.folder import RunFolder
from tests.store.database.database_material import MEMBERS, trial

STUDY = "tenants: {{sgemm: {{workload: sgemm, params: {{size: {size}, inputs: normal}}}}}}"


def run(path, *, host="box", size=512, members=(), described=None, simulated=False, changed=None):
    """A run of four trials whose records are changed by a function."""
    manifest = {"run": path.name, "study_name": "variability", "study": STUDY.format(size=size), "device": "cpu:each",
                "simulated": simulated, "seed": 1, "sessions": [{"host": host}],
                "device_description": {**(described or {}), "members": list(members)}}  # fmt: skip
    folder = RunFolder.create(path, manifest)
    for number in range(4):
        records = trial(number)
        records.trial["simulated"] = simulated
        if changed is not None:
            changed(records)
        folder.commit(records)
    return path


def on_cores(records):
    """Three cores instead of three GPUs."""
    for number, tenant in enumerate(records.tenants):
        tenant["member"] = f"cpu:{number}"


def names(home):
    with Database.open(home) as database:
        return {work.name: database.readings(work).gpus for work in database.works()}


def test_a_core_belongs_to_its_machine(tmp_path):
    runs = [run(tmp_path / host, host=host, changed=on_cores) for host in ("ant", "bee")]
    add(runs, tmp_path / "db")
    [gpus] = names(tmp_path / "db").values()
    assert gpus == tuple(f"{host} cpu:{number}" for host in ("ant", "bee") for number in range(3))
    with Database.open(tmp_path / "db") as database:
        assert database.find_gpu("bee cpu:1") == "bee cpu:1"


def test_a_core_is_found_by_number_despite_common_prefixes(tmp_path):
    def many(records):
        for number, tenant in zip((1, 10, 11), records.tenants, strict=True):
            tenant["member"] = f"cpu:{number}"

    add([run(tmp_path / "run", changed=many)], tmp_path / "db")
    with Database.open(tmp_path / "db") as database:
        assert database.find_gpu("cpu:1") == "box cpu:1"


def test_products_of_other_sizes_are_other_work(tmp_path):
    add([run(tmp_path / "a", size=8192), run(tmp_path / "b", size=16896)], tmp_path / "db")
    assert set(names(tmp_path / "db")) == {
        f"sgemm, size {size}, inputs normal, batch 1, float32 (3 at once)" for size in (8192, 16896)
    }


def test_kinds_of_gpu_are_compared_among_themselves_and_named_where_there_are_several(tmp_path):
    mixed = [
        {"identity": "GPU-aaaa0000-1", "name": "V100"},
        {"identity": "GPU-bbbb0000-2", "name": "A100"},
        {"identity": "GPU-cccc0000-3", "name": "V100"},
    ]
    add([run(tmp_path / "mixed", members=mixed)], tmp_path / "db")
    work = "sgemm, size 512, inputs normal, batch 1, float32 on {} (3 at once)"
    assert names(tmp_path / "db") == {
        work.format("V100"): ("GPU-aaaa0000-1", "GPU-cccc0000-3"),
        work.format("A100"): ("GPU-bbbb0000-2",),
    }
    add([run(tmp_path / "alike", described={"model": "V100"})], tmp_path / "other")
    assert list(names(tmp_path / "other")) == ["sgemm, size 512, inputs normal, batch 1, float32 (3 at once)"]


def test_copies_of_one_tenant_on_one_member_are_one_measurement(tmp_path):
    def copies(records):
        records.trial["sharing"] = "mps"
        for tenant in records.tenants:
            tenant["member"] = "GPU-aaaa0000-1"

    add([run(tmp_path / "run", changed=copies)], tmp_path / "db")
    with Database.open(tmp_path / "db") as database:
        [work] = database.works()
        readings = database.readings(work)
    assert work.conditions == "beside sgemm, sgemm by mps"
    assert readings.counts.tolist() == [4]
    assert readings.time_ms.tolist() == [np.mean([100, 110, 100])] * 4


def test_simulated_trials_do_not_overlap_in_time(tmp_path):
    add([run(tmp_path / "run", simulated=True)], tmp_path / "db")
    with Database.open(tmp_path / "db") as database:
        at_s, _ = database.series(database.sensors("GPU-aaaa0000-1")[0])
    assert at_s.size == 80
    assert (np.diff(at_s) > 0).all()
    assert (np.diff(at_s) > 30).sum() == 3


def test_the_power_of_a_shared_gpu_is_split_by_a_named_rule(tmp_path):
    def drawing(number, watts, alone=None):
        records = trial(number)
        records.trial["simulated"] = False
        for tenant, name in zip(records.tenants, ("sgemm", "bert", "idle"), strict=True):
            tenant.update(tenant=name, of=name, workload=name, member=MEMBERS[0])
        kept = [n for n, tenant in enumerate(records.tenants) if tenant["of"] in (alone or ("sgemm", "bert"))]
        rows = np.isin(records.requests["tenant"], kept)
        requests = {name: column[rows] for name, column in records.requests.items()}
        requests["tenant"] = np.searchsorted(kept, requests["tenant"])
        power = records.samples["sensor"] == "power_w"
        samples = records.samples | {"value": np.where(power, watts, records.samples["value"])}
        return replace(records, tenants=tuple(records.tenants[n] for n in kept), requests=requests, samples=samples)

    folder = RunFolder.create(tmp_path / "run", {"run": "r", "device": "cuda:0", "sessions": [{"host": "box"}]})
    folder.commit(drawing(0, 280.0))
    add([tmp_path / "run"], tmp_path / "db")
    with Database.open(tmp_path / "db") as database:
        [by_activity] = shared_power(database.drawn(MEMBERS[0]), MEMBERS[0], database.source_names())
    assert by_activity.rule == "activity share"
    assert by_activity.watts["bert, batch 1, float32"] == pytest.approx(280 * 110 / 210)
    folder.commit(drawing(1, 250.0, alone=("sgemm",)))
    folder.commit(drawing(2, 200.0, alone=("bert",)))
    add([tmp_path / "run"], tmp_path / "db")
    story = gpu(MEMBERS[0], db=tmp_path / "db")
    [shapley] = story.shared
    assert (shapley.rule, shapley.power_w, shapley.trials) == ("shapley", 280.0, 1)
    assert shapley.watts == {
        "sgemm, batch 1, float32": pytest.approx((250 + 280 - 200) / 2),
        "bert, batch 1, float32": pytest.approx((200 + 280 - 250) / 2),
    }
    console = Console(width=200, record=True, file=StringIO())
    console.print(*to_terminal(gpu_elements(story)))
    assert "165 W of sgemm" in console.export_text()
