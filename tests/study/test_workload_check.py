"""Workloads that don't exist or can't run as the study says are named all at once, with their lines."""

from pathlib import Path

import pytest

from cotenant import workloads
from cotenant.errors import StudyError, WorkloadError
from cotenant.study.files import load_study, study_from
from cotenant.study.workload_check import check_workloads
from cotenant.workloads.protocol import WorkloadSpec


class OnlySmallBatches:
    def check(self, spec: WorkloadSpec) -> None:
        if spec.batch > 4:
            raise WorkloadError(f"{spec.name} takes at most 4 items", hint="lower the batch")


def find(name: str) -> OnlySmallBatches:
    if name != "known":
        raise WorkloadError(f"there is no workload {name!r}")
    return OnlySmallBatches()


@pytest.fixture(autouse=True)
def _small_catalogue(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workloads, "find", find)


def test_all_problems_come_with_their_lines(tmp_path: Path):
    file = tmp_path / "s.yaml"
    file.write_text(
        "tenants:\n"
        "  fine: {workload: known}\n"
        "  typo:\n"
        "    batch: 3\n"
        "    workload: knwon\n"
        "  big: {workload: known, batch: 8}\n"
    )
    with pytest.raises(StudyError) as caught:
        check_workloads(load_study(file))
    assert caught.value.problems == (
        f"{file}:5: tenants.typo.workload: there is no workload 'knwon'",
        f"{file}:6: tenants.big: known takes at most 4 items; lower the batch",
    )


def test_an_override_is_named_instead_of_a_line():
    with pytest.raises(StudyError) as caught:
        check_workloads(load_study("quick", ["tenants={a: {workload: knwon}}", "mixes=[solo]"]))
    assert caught.value.problems == (
        "--set tenants={a: {workload: knwon}}: tenants.a.workload: there is no workload 'knwon'",
    )


def test_a_study_without_a_file_is_checked_too():
    with pytest.raises(StudyError) as caught:
        check_workloads(study_from({"tenants": {"a": {"workload": "x"}}}))
    assert caught.value.problems == ("tenants.a.workload: there is no workload 'x'",)
    check_workloads(study_from({"tenants": {"a": {"workload": "known"}}}))


@pytest.mark.parametrize("workload", ["http://127.0.0.1:9/x", "openai:http://127.0.0.1:9", "v2:", "command: ./mine"])
def test_servers_and_commands_are_refused_on_a_simulated_device_before_anything_is_asked_of_them(workload):
    study = study_from({"tenants": {"a": {"workload": workload}, "b": {"workload": "known"}}})
    with pytest.raises(StudyError) as caught:
        check_workloads(study, simulated=True)
    assert caught.value.problems == (
        f'tenants.a.workload: "{workload}" can\'t run on a simulated device: name a real one, e.g. --device cpu',
    )


def test_the_list_of_workloads_is_named_only_where_one_does_not_exist():
    def hint(**tenant):
        with pytest.raises(StudyError) as caught:
            check_workloads(study_from({"tenants": {"a": {"workload": "known", **tenant}}}))
        return caught.value.hint

    assert hint(workload="knwon") == "`cotenant workloads` lists the available ones"
    assert hint(batch=8) is None
