"""From a study to blocks of trials: everything once, the baseline always, the order random, all of it repeatable."""

import subprocess
import sys
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.study.expand import arrival_seed, expand, needs_capacity, trials_per_block
from cotenant.study.files import load_study, study_from
from cotenant.study.model import Study
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.ways import ALONE

MODES = ("processes", "threads", "pinned")
steady = settings(deadline=None, derandomize=True, max_examples=60)


def study_of(*tenants: str, **keys: object) -> Study:
    return study_from({"tenants": {name: {"workload": "null"} for name in tenants}, "budget": None, **keys})


def canonical(study: Study, block: int = 0) -> list[Trial]:
    return sorted(expand(study, block, MODES).trials, key=lambda trial: trial.number)


def cells(study: Study) -> list[str]:
    return [f"{trial.mix} | {trial.sharing} | {trial.load}" for trial in canonical(study)]


def test_solos_come_first_in_the_numbering_then_each_mix_under_each_sharing():
    assert cells(study_of("a", "b", sharing=["processes", {"mps": [60, 40]}])) == [
        "a | alone | closed(1)",
        "b | alone | closed(1)",
        "a+b | processes | closed(1)",
        "a+b | mps[60, 40] | closed(1)",
    ]


def test_all_tenants_at_once_are_one_mix_and_two_of_them_a_pair():
    mixes = {trial.mix for trial in canonical(study_of("a", "b", "c", mixes=["pairs", "all"])) if not trial.solo}
    assert mixes == {"a+b", "a+c", "b+c", "all"}
    assert [trial.mix for trial in canonical(study_of("a", "b", mixes=["pairs", "all"])) if not trial.solo] == ["a+b"]


def test_all_sharings_are_those_the_device_supports():
    study = study_of("a", "b", sharing="all")
    shared = [str(trial.sharing) for trial in canonical(study) if not trial.solo]
    assert shared == list(MODES)
    assert expand(study, 0, ("mps",)) == expand(study_of("a", "b", sharing=["mps"]), 0, ("processes",))


def test_explicit_sharings_are_taken_as_written_even_if_the_device_lacks_them():
    assert "a+b | green | closed(1)" in cells(study_of("a", "b", sharing=["green"]))


def test_copies_and_groups_have_labels_and_their_members_have_names():
    rules = [{"copies": {"a": [2]}}, {"groups": {"odd": ["a", "b", "a"]}}]
    trials = {trial.mix: trial for trial in canonical(study_of("a", "b", mixes=rules)) if not trial.solo}
    assert [(tenant.name, tenant.of) for tenant in trials["a x2"].tenants] == [("a#1", "a"), ("a#2", "a")]
    assert [(tenant.name, tenant.of) for tenant in trials["odd"].tenants] == [("a#1", "a"), ("b", "b"), ("a#2", "a")]


def test_only_tenants_that_appear_somewhere_are_measured_alone():
    used = study_of("a", "b", "c", mixes=[{"groups": {"g": ["c", "a"]}}])
    assert [trial.mix for trial in canonical(used)] == ["a", "c", "g"]
    listed = study_of("a", "b", "c", mixes=["solo"])
    assert [trial.mix for trial in canonical(listed)] == ["a", "b", "c"]


def test_the_same_mix_from_two_rules_is_measured_once_under_its_first_name():
    rules = [
        "pairs",
        {"groups": {"both": ["b", "a"]}},
        "pairs",
        {"copies": {"a": [2, 2]}},
        {"groups": {"aa": ["a", "a"]}},
    ]
    assert [trial.mix for trial in canonical(study_of("a", "b", mixes=rules))] == ["a", "b", "a+b", "a x2"]


def test_with_shares_the_order_of_tenants_matters():
    rules = ["pairs", {"groups": {"swapped": ["b", "a"]}}]
    study = study_of("a", "b", mixes=rules, sharing=["processes", {"mps": [60, 40]}])
    assert cells(study)[2:] == [
        "a+b | processes | closed(1)",
        "a+b | mps[60, 40] | closed(1)",
        "swapped | mps[60, 40] | closed(1)",
    ]


def test_settings_and_loads_multiply_solos_and_mixes_alike():
    study = study_of("a", "b", settings=[{}, {"power_limit_w": 250}], loads=["closed(1)", "poisson(70%)"])
    counted = Counter((trial.mix, str(trial.settings), trial.load) for trial in canonical(study))
    assert len(counted) == 3 * 2 * 2
    assert set(counted.values()) == {1}


def test_repeated_settings_and_loads_are_measured_once():
    assert trials_per_block(study_of("a", settings=[{}, {}], loads=["closed(1)", "single-stream"]), MODES) == 1


def test_a_tenants_own_load_overrides_the_studys():
    data = {
        "tenants": {"a": {"workload": "null", "load": "poisson(5)"}, "b": {"workload": "null"}},
        "loads": ["closed(1)", "closed(2)"],
    }
    trials = canonical(study_from(data))
    in_pair = [[str(tenant.load) for tenant in trial.tenants] for trial in trials if trial.mix == "a+b"]
    assert in_pair == [["poisson(5)", "closed(1)"], ["poisson(5)", "closed(2)"]]
    # Trials are compared at equal labels, so the baseline of `a` exists under both.
    assert [(trial.load, str(trial.tenants[0].load)) for trial in trials if trial.mix == "a"] == [
        ("closed(1)", "poisson(5)"),
        ("closed(2)", "poisson(5)"),
    ]


def test_if_every_tenant_has_its_own_load_the_studys_loads_are_not_multiplied():
    entry = {"workload": "null", "load": "poisson(5)"}
    study = study_from({"tenants": {"a": entry, "b": entry}, "loads": ["closed(1)", "closed(2)"]})
    assert cells(study) == ["a | alone | own", "b | alone | own", "a+b | processes | own"]


def test_a_trace_is_labelled_by_its_file_name():
    assert "bert-mini | alone | trace(bursty.csv, 5%)" in cells(load_study("arrivals"))


def test_only_loads_given_as_a_share_need_a_measured_capacity():
    data = {
        "tenants": {
            "share": {"workload": "null", "load": "gamma(70%, 2)"},
            "rate": {"workload": "null", "load": "poisson(5)"},
            "studys": {"workload": "null", "batch": 3},
            "unused": {"workload": "null"},
        },
        "mixes": [{"groups": {"g": ["share", "rate", "studys"]}}],
        "loads": ["closed(1)", "poisson(50%)"],
    }
    needed = needs_capacity(study_from(data))
    assert [(tenant.name, tenant.of, str(tenant.load)) for tenant in needed] == [
        ("share", "share", "closed(1)"),
        ("studys", "studys", "closed(1)"),
    ]
    assert needed[1].workload.batch == 3


def test_percent_loads_stay_unresolved():
    [trial] = canonical(study_of("a", loads=["poisson(70%)"]))
    assert (trial.tenants[0].load.rate_share, trial.tenants[0].load.rate_rps) == (0.7, None)


def test_a_tenant_sees_the_same_arrivals_alone_and_in_company_but_copies_differ():
    study = study_of("a", "b", mixes=["pairs", {"copies": {"a": [2]}}])
    seeds = {
        (trial.mix, tenant.name): arrival_seed(trial, tenant) for trial in canonical(study) for tenant in trial.tenants
    }
    assert seeds["a", "a"] == seeds["a+b", "a"] == seeds["a x2", "a#1"]
    assert len({seeds["a", "a"], seeds["b", "b"], seeds["a x2", "a#2"]}) == 3
    [later] = [trial for trial in canonical(study, block=1) if trial.mix == "a"]
    assert arrival_seed(later, later.tenants[0]) != seeds["a", "a"]


def test_the_same_study_gives_the_same_block_in_another_process():
    code = (
        "from cotenant.study.expand import expand; from cotenant.study.files import load_study;"
        "print([t.number for t in expand(load_study('quick'), 2, ('processes', 'threads')).trials], end='')"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = [trial.number for trial in expand(load_study("quick"), 2, ("processes", "threads")).trials]
    assert other.stdout == str(here)


def test_the_first_position_is_fair():
    """Over many blocks each trial is first about equally often (chance of a false alarm: below 1 in 1,000)."""
    study = study_of("a", "b")
    firsts = Counter(min(expand(study, block, MODES).trials, key=lambda t: t.order).mix for block in range(600))
    assert all(abs(firsts[mix] - 200) < 45 for mix in ("a", "b", "a+b"))


@st.composite
def studies(draw: st.DrawFn) -> Study:
    tenants = draw(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=6, unique=True))
    members = st.sampled_from(tenants)
    rule = st.one_of(
        st.sampled_from(["solo", "pairs", "all"]),
        st.dictionaries(members, st.lists(st.integers(2, 4), min_size=1, max_size=3), min_size=1, max_size=2).map(
            lambda copies: {"copies": copies}
        ),
        st.lists(members, min_size=2, max_size=5).map(lambda group: {"groups": {f"group of {''.join(group)}": group}}),
    )
    rules = draw(st.lists(rule, min_size=1, max_size=3))
    if len(tenants) == 1:
        rules = ["solo", *rules]
    return study_of(
        *tenants,
        mixes=rules,
        sharing=draw(st.sampled_from(["all", ["processes"], ["threads", "pinned"]])),
        loads=draw(st.lists(st.sampled_from(["closed(1)", "closed(2)", "poisson(50%)"]), min_size=1, max_size=3)),
        seed=draw(st.integers(0, 5)),
    )


@steady
@given(study=studies(), block=st.integers(0, 40))
def test_every_block_is_a_permutation_of_the_same_trials(study: Study, block: int):
    n = trials_per_block(study, MODES)
    trials = expand(study, block, MODES).trials
    assert [trial.order for trial in trials] == list(range(n))
    assert sorted(trial.number for trial in trials) == list(range(block * n, block * n + n))
    unblocked = {"number": 0, "block": 0, "order": 0, "seed": 0}
    here = [trial.model_copy(update=unblocked) for trial in canonical(study, block)]
    assert here == [trial.model_copy(update=unblocked) for trial in canonical(study, 0)]
    assert {trial.block for trial in trials} == {block}


@steady
@given(study=studies(), block=st.integers(0, 40))
def test_expansion_is_deterministic_and_no_trial_appears_twice(study: Study, block: int):
    trials = expand(study, block, MODES).trials
    assert expand(study, block, MODES).trials == trials
    identities = Counter(
        (tuple(sorted(tenant.of for tenant in trial.tenants)), str(trial.sharing), trial.load) for trial in trials
    )
    assert set(identities.values()) <= {1}
    assert len({trial.seed for trial in trials}) <= 1


@steady
@given(study=studies())
def test_every_tenant_of_every_trial_has_its_solo_baseline_in_the_block(study: Study):
    trials = canonical(study)
    solos = {(trial.tenants[0].of, trial.load) for trial in trials if trial.solo}
    for trial in trials:
        assert trial.sharing.mode == ALONE or len(trial.tenants) > 1
        assert {(tenant.of, trial.load) for tenant in trial.tenants} <= solos
        assert len({tenant.name for tenant in trial.tenants}) == len(trial.tenants)


@steady
@given(count=st.integers(2, 8))
def test_each_pair_is_measured_once(count: int):
    tenants = "abcdefgh"[:count]
    pairs = [trial.mix for trial in canonical(study_of(*tenants, mixes=["pairs", "pairs"])) if not trial.solo]
    assert pairs == ["+".join(pair) for pair in combinations(tenants, 2)]


@pytest.mark.parametrize("seed", range(3))
def test_blocks_come_in_different_orders(seed: int):
    study = study_of("a", "b", "c", "d", seed=seed)
    orders = {tuple(trial.mix for trial in expand(study, block, MODES).trials) for block in range(10)}
    assert len(orders) == 10


def test_mixes_are_visited_as_often_as_asked_and_tenants_alone_once():
    tenants = {name: {"workload": "spin"} for name in "ab"}
    study = study_from({"tenants": tenants, "mixes": ["pairs"], "blocks": {"min": 1, "max": 9, "visits": 3}})
    block = expand(study, 2, ("processes",))
    assert sorted(trial.mix for trial in block.trials) == ["a", "a+b", "a+b", "a+b", "b"]
    assert sorted(trial.number for trial in block.trials) == list(range(10, 15))
    assert trials_per_block(study, ("processes",)) == 5
