"""Candidates of one architecture: settings that are only names or only matter in training don't count."""

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
def test_a_name_does_not_change_the_architecture(candidate, setting):
    assert with_settings(candidate, **setting).architecture == candidate.architecture


def test_a_size_changes_the_architecture(candidate):
    assert with_settings(candidate, hidden_size=32).architecture != candidate.architecture
