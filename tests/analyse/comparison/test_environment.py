"""What differs between two runs, one sentence per kind."""

import pytest

from cotenant.analyse.comparison.environment import MACHINE, SETTINGS, differences, forbids


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        ({}, {}, None),
        ({"device": "cpu", "simulated": False}, {"device": "cpu"}, None),
        ({"simulated": True}, {"simulated": False}, "one was measured and the other simulated"),
        ({"device": "cpu"}, {"device": "cuda:0"}, "one ran on cpu and the other on cuda:0"),
    ],
)
def test_runs_of_different_devices_can_not_be_compared(before, now, why):
    assert forbids(before, now) == why


def run(described=None, **more):
    return {"device_description": described or {}, "sessions": [more], "study_name": "s", "study": "text"}


@pytest.mark.parametrize("name", MACHINE)
def test_each_fact_of_the_machine_counts(name):
    assert differences(run({name: [1, 2]}), run({name: None})) == [f"Different machines: {name} 1,2 -> none."]


@pytest.mark.parametrize("name", SETTINGS)
def test_each_setting_of_the_system_counts(name):
    assert differences(run({name: []}), run({name: 5})) == [f"The system changed: {name} none -> 5."]


def test_packages_and_variables_are_named_with_both_values():
    before = run(packages={"b": "1", "a": "1"}, environment={"X": "1"})
    now = run(packages={"a": "2", "c": "3", "b": "1"}, environment={})
    assert differences(before, now) == [
        "Packages changed: a 1 -> 2; c none -> 3.",
        "Environment variables changed: X 1 -> none.",
    ]


def test_the_code_by_its_commit_and_what_was_not_committed():
    before, now = run(git={"commit": "a" * 40}), run(git={"commit": "b" * 40})
    assert differences(before, now) == [f"The working directory's commit changed: {'a' * 12} -> {'b' * 12}."]
    dirty = run(git={"commit": "c", "dirty": True})
    told = ["There were uncommitted changes in the working directory."]
    assert differences(dirty, run(git={"commit": "c"})) == differences(run(git={"commit": "c"}), dirty) == told


def test_the_study_by_its_name_or_else_its_text():
    assert differences(run(), run() | {"study": "other"})[0].startswith("The study's text changed")
    renamed = differences(run(), run() | {"study": "other", "study_name": "t"})
    assert renamed == ["The studies have different names: s and t."]


@pytest.mark.parametrize("sessions", [None, [], "x", ["x"], {}])
def test_equal_and_foreign_manifests_differ_in_nothing(sessions):
    assert differences(run(), run()) == []
    foreign = {"device_description": [1], "sessions": sessions}
    assert differences(foreign, foreign) == []
