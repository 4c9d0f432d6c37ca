"""How a study is spread over the members of a group: the trials, their tenants' members, and their names."""

from itertools import combinations

import pytest

from cotenant.study.expand import arrival_seed, expand, trials_per_block
from cotenant.study.files import study_from_text
from cotenant.study.model import Study
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.records import APART
from cotenant.tenancy.ways import ALONE

FOUR = ("m0", "m1", "m2", "m3")


def study(spread: str | None, mixes: str = "[solo, {beside: {a: [b]}}]") -> Study:
    line = "" if spread is None else f"spread: {spread}\n"
    text = f"tenants: {{a: {{workload: 'null'}}, b: {{workload: spin}}}}\nmixes: {mixes}\nsharing: [mps]\n{line}"
    return study_from_text(text, source="s")


def trials(spread: str | None, members: tuple[str, ...] = FOUR, **options: str) -> list[Trial]:
    return sorted(expand(study(spread, **options), 0, ("mps",), members).trials, key=lambda trial: trial.number)


def members(trial: Trial) -> set[str | None]:
    return {tenant.member for tenant in trial.tenants}


@pytest.mark.parametrize("spread", [None, "each"])
def test_each_is_every_trial_on_one_member_after_the_other(spread):
    found = trials(spread)
    assert len(found) == 4 * 3
    assert all(len(members(trial)) == 1 for trial in found)
    assert {(trial.mix, str(trial.sharing)) for trial in found} == {("a", ALONE), ("b", ALONE), ("b+a", "mps")}


def test_together_is_one_trial_for_all_and_its_solo_trials_are_the_baseline():
    found = trials("together")
    assert [(trial.mix, trial.solo, len(trial.tenants)) for trial in found] == [
        ("a", True, 4),
        ("b", True, 4),
        ("b+a", False, 8),
    ]


def test_combinations_are_all_subsets_and_only_single_members_are_a_baseline():
    found = [
        trial
        for trial in trials("combinations")
        if trial.tenants[0].of == "a" and len(members(trial)) == len(trial.tenants)
    ]
    assert [members(trial) for trial in found] == [
        set(some) for size in range(1, 5) for some in combinations(FOUR, size)
    ]
    assert {(trial.mix, str(trial.sharing)) for trial in found if len(trial.tenants) == 1} == {("a", ALONE)}
    assert {(trial.mix, str(trial.sharing)) for trial in found if len(trial.tenants) == 3} == {("a on 3 of 4", APART)}


@pytest.mark.parametrize(("count", "placements"), [(1, 1), (4, 15), (5, 5), (16, 16), (17, 1), (392, 1)])
def test_auto_measures_as_much_as_the_group_size_allows(count, placements):
    names = tuple(f"m{i}" for i in range(count))
    assert trials_per_block(study("auto", mixes="[solo]"), ("mps",), names) == 2 * placements


def test_auto_has_no_effect_on_a_single_device():
    plain, spread = trials(None, ()), trials("auto", ())
    assert plain == spread
    assert all(tenant.member is None for trial in plain for tenant in trial.tenants)


def test_names_carry_the_member_and_copies_stay_apart():
    found = trials("together", ("m0", "m1"), mixes="[{copies: {a: [2]}}]")
    assert [tenant.name for tenant in found[-1].tenants] == ["a#1@0", "a#2@0", "a#1@1", "a#2@1"]


def test_a_tenant_sees_the_same_arrivals_on_every_member_alone_and_in_company():
    alone = next(trial for trial in trials("combinations") if trial.mix == "a")
    company = next(trial for trial in trials("combinations") if trial.mix == "b+a on 4 of 4")
    seeds = {arrival_seed(company, tenant) for tenant in company.tenants if tenant.of == "a"}
    assert seeds == {arrival_seed(alone, alone.tenants[0])}


def test_a_base_is_beside_every_test():
    found = study(None, mixes="[{beside: {a: [b]}}]").mix_list()
    assert [(mix.label, mix.members) for mix in found] == [("b+a", ("b", "a"))]
