"""Which candidates have one architecture: settings that only name things or matter in training don't count."""

from dataclasses import replace

import pytest

from cotenant.ranking.candidates import resolve


@pytest.fixture
def candidate():
    [found] = resolve(["bert-base-mini"])
    return found


def with_settings(candidate, **settings):
    return replace(candidate, entry=replace(candidate.entry, config={**candidate.entry.config, **settings}))


@pytest.mark.parametrize("setting", [{"classifier_dropout": None}, {"_name_or_path": "x"}, {"use_cache": False}])
def test_a_name_makes_no_other_architecture(candidate, setting):
    assert with_settings(candidate, **setting).architecture == candidate.architecture


def test_a_size_does(candidate):
    assert with_settings(candidate, hidden_size=32).architecture != candidate.architecture
