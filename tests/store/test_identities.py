"""Who a tenant of a run is, and which runs are put side by side."""

import json
from types import SimpleNamespace as Facts

import pytest

from cotenant.store.compared import _one_study_on_several
from cotenant.store.identities import Identities
from cotenant.store.manifest import asked_interval, own_loads, workloads_of
from cotenant.workloads.spec_options import UNKNOWN_DTYPE

STUDY = "name: s\ndevice: cpu\ntenants:\n  a: {workload: bert-base-mini, batch: 4}\nmixes: [solo]\n"


def identity(*, study=STUDY, simulated=False, packages=("2.3.0", "2.4.1+cpu"), **columns):
    """Of a tenant of a run of several sessions, each with its version of torch."""
    sessions = [{"packages": {"torch": version}} for version in packages]
    manifest = {"study": study, "simulated": simulated, "sessions": sessions}
    given = {"load": "closed(2)", "settings": None, "workload": "bert-base-mini", "batch": 4, "seq": 128,
             "dtype": "float32", "threads": 1, "software": "eager"} | columns  # fmt: skip
    return Identities(Facts(folders={"r": Facts(manifest=manifest)})).of("r", "a", **given)


@pytest.mark.parametrize(
    ("facts", "version"),
    [
        ({}, "2.4"),
        ({"software": "compile"}, "2.4"),
        ({"software": "onnxruntime"}, None),
        ({"simulated": True}, None),
        ({"packages": ()}, None),
        ({"packages": (None,)}, None),
    ],
)
def test_the_version_of_torch_is_that_of_the_last_session_where_torch_ran(facts, version):
    assert identity(**facts).version == version


def test_what_was_recorded_counts_more_than_what_the_study_says():
    found = identity(batch=8, dtype="bfloat16")
    assert (found.batch, found.dtype, found.software) == (8, "bfloat16", "eager")
    assert identity(dtype=UNKNOWN_DTYPE).dtype == identity(dtype=None).dtype


@pytest.mark.parametrize("study", ["", "[", "name: 3", STUDY.replace("bert-base-mini", "gpt2-mini")])
def test_without_a_study_that_fits_only_the_records_count(study):
    found = identity(study=study, settings='{"power_w": 200}')
    assert (found.workload, found.batch, json.loads(found.settings)) == ("bert-base-mini", 4, {"power_w": 200})


@pytest.mark.parametrize(
    ("runs", "several"),
    [
        ([("s", "a"), ("s", "b")], True),
        ([("s", "a"), ("s", "a")], False),
        ([("s", "a"), ("t", "b")], False),
        ([("s", "a"), ("s", "b"), ("s", "b")], False),
    ],
)
def test_devices_are_put_side_by_side_if_each_has_one_run_of_one_study(runs, several):
    assert _one_study_on_several([{"study_name": study, "device": device} for study, device in runs]) is several


@pytest.mark.parametrize(
    ("studies", "asked"),
    [
        (["until: {interval: 5%}"], 0.05),
        (["until: {interval: 5%}"] * 2, 0.05),
        (["until: {interval: 5%}", "until: {interval: 4%}"], None),
        (["until: {time: 3min}"], None),
        (["[}"], None),
        ([""], None),
        ([], None),
    ],
)
def test_the_precision_that_was_asked_for_is_that_of_the_one_study(studies, asked):
    assert asked_interval([{"study": study} for study in studies]) == (None if asked is None else pytest.approx(asked))


def test_what_a_manifest_says_of_its_tenants():
    text = "tenants: {a: {workload: bert, load: closed(2)}, b: {workload: gpt2}, c: {load: ''}}"
    assert own_loads({"study": text}) == {"a": "closed(2)"}
    assert workloads_of({"study": text}) == {"a": "bert", "b": "gpt2"}
    for text in ("tenants: [a]", "tenants: {a: 3}", "- 1", "{", ""):
        assert (own_loads({"study": text}), workloads_of({})) == ({}, {})
