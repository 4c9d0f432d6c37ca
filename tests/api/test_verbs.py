"""Verbs as functions: what they leave out, what they accept, what they say."""

import pytest

import cotenant
from cotenant.cli.main import main

STUDY = """device: sim:t4
tenants:
  a: {workload: bert-base}
  b: {workload: resnet50}
mixes: [pairs, {copies: {a: [9]}}]
sharing: [processes]
blocks: 2
window: 1s
"""


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(STUDY, encoding="utf-8")
    return path


def test_a_mix_that_is_too_large_is_left_out_of_a_prediction_and_named(study):
    prediction = cotenant.predict(study, quiet=True)
    assert [mix.mix for mix in prediction.mixes] == [("a", "b")]
    assert prediction.notes[0] == "1 mix was left out: mixes of 2 to 8 tenants can be predicted"


@pytest.mark.parametrize(("words", "name"), [("detector", "yolos-small"), ("rerankers", "bge-reranker-base")])
def test_words_find_workloads_whatever_their_ending(words, name):
    assert name in {info.entry.name for info in cotenant.list_workloads(words)}


def test_several_runs_of_one_device_are_explained_together(study, tmp_path):
    changes = ["mixes=[pairs]"]
    first, second = [cotenant.run(study, out=tmp_path, overrides=changes, quiet=True).folder for _ in range(2)]
    other = cotenant.run(study, device="sim:l4", out=tmp_path, overrides=changes, quiet=True).folder
    assert cotenant.explain([first, second]).to_json() != cotenant.explain(first).to_json()
    with pytest.raises(cotenant.RunFolderError, match="about one device; these runs are on sim:t4 and sim:l4"):
        cotenant.explain([first, other])


def test_devices_come_back_in_the_order_given(study, tmp_path):
    names = ("sim:t4", "sim:a100-sxm4-40gb", "sim:l4")
    run = cotenant.run(study, devices=",".join(names), overrides=["mixes=[pairs]"], out=tmp_path, quiet=True)
    assert tuple(manifest["device"] for manifest in run.manifests) == names
    assert run.side_by_side.devices == names


def test_a_plan_for_a_file_that_is_not_there_says_so(tmp_path, capsys):
    assert main(["plan", str(tmp_path / "absent.yaml")]) == 1
    said = capsys.readouterr().err
    assert "There is no file" in said
    assert "jobs" not in said


def test_only_the_device_or_a_group_is_named_on_a_cluster(study):
    with pytest.raises(cotenant.DeviceError, match="both given"):
        cotenant.run(study, on="ray", device="sim:t4", devices="all", quiet=True)
