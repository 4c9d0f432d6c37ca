"""The built-in studies do what they claim."""

import random
import statistics
from itertools import pairwise

from cotenant.study.expand import needs_capacity, trials_per_block
from cotenant.study.files import load_study
from cotenant.study.schema import StudyInfo, builtin_file, builtin_studies
from cotenant.study.workload_check import check_workloads
from cotenant.tenancy.sharing import Sharing

CPU = ("processes", "threads", "pinned")


def test_the_list_names_each_with_its_question():
    infos = builtin_studies()
    names = [info.name for info in infos]
    assert names == ["quick", *sorted(set(names) - {"quick"})]
    assert {"arrivals", "dvfs", "tenancy", "tenancy-mini", "variability", "variability-mini"} < set(names)
    assert all(info.about.endswith(("?", ".")) for info in infos)
    assert infos[0] == StudyInfo(
        name="quick",
        about=infos[0].about,
        tenants=("encoder", "scan", "chat"),
        mixes=("encoder+scan", "all"),
    )


def test_every_workload_of_every_study_exists():
    for info in builtin_studies():
        check_workloads(load_study(info.name))


def test_quick_uses_every_sharing_of_a_cpu():
    study = load_study("quick")
    assert study.sharings(CPU) == tuple(Sharing(mode=mode) for mode in CPU)
    assert trials_per_block(study, CPU) == 3 + study.blocks.visits * 2 * len(CPU)


def test_tenancy_is_the_full_matrix_and_leaves_the_number_format_to_the_device():
    study = load_study("tenancy")
    mixes = {mix.label: mix.members for mix in study.mix_list()}
    assert [len(mixes[f"distilgpt2 x{count}"]) for count in (2, 3, 4, 10)] == [2, 3, 4, 10]
    assert set(mixes["encoders"]) == {"bert-base", "distilbert", "deberta-v3-base", "roberta-large"}
    assert set(mixes["decoders"]) == {"distilgpt2", "llama-3.2-3b", "mistral-7b"}
    assert set(mixes["all"]) == set(study.tenants) == set(mixes["encoders"]) | set(mixes["decoders"])
    assert mixes["distilgpt2+mistral-7b"] == ("distilgpt2", "mistral-7b")
    assert {(entry.batch, entry.seq, entry.dtype) for entry in study.tenants.values()} == {(8, 128, None)}


def test_tenancy_mini_is_the_same_matrix_of_small_siblings():
    full, mini = load_study("tenancy"), load_study("tenancy-mini")
    assert [entry.workload for entry in mini.tenants.values()] == [
        f"{entry.workload}-mini" for entry in full.tenants.values()
    ]
    assert [mix.members for mix in mini.mix_list()] == [
        tuple(f"{member}-mini" for member in mix.members) for mix in full.mix_list()
    ]


def test_arrivals_loads_the_device_from_a_tenth_to_more_than_it_can_do():
    study = load_study("arrivals")
    [mix] = study.mix_list()
    assert len(mix.members) == 2
    assert {load.kind for load in study.loads} == {"closed", "poisson", "gamma", "trace"}
    for kind in ("poisson", "gamma", "trace"):
        of_device = [round(2 * (load.rate_share or 0), 6) for load in study.loads if load.kind == kind]
        assert of_device == [0.1, 0.3, 0.6, 0.9, 1.2]
    assert [tenant.name for tenant in needs_capacity(study)] == list(mix.members)


def bursty_arrivals(count: int) -> list[float]:
    """The recipe of the trace: calm (5/s) and bursts (40/s) take turns, each for a random time (mean 4 s and 1 s)."""
    rng = random.Random(418)
    now, burst, arrivals = 0.0, False, []
    while len(arrivals) < count:
        end = now + rng.expovariate(1 / (1.0 if burst else 4.0))
        while (now := now + rng.expovariate(40.0 if burst else 5.0)) < end:
            arrivals.append(now)
        now, burst = end, not burst
    return arrivals[:count]


def test_the_trace_is_bursty_and_follows_its_recipe():
    rows = builtin_file("arrivals").with_name("bursty.csv").read_text().splitlines()
    assert rows[0] == "arrival_s"
    assert rows[1:] == [f"{arrival:.6f}" for arrival in bursty_arrivals(500)]
    gaps = [float(after) - float(before) for before, after in pairwise(rows[1:])]
    assert statistics.stdev(gaps) / statistics.mean(gaps) > 1.5


def test_tenancy_pairs_contains_every_pair_of_the_tenancy_models():
    full, pairs = load_study("tenancy"), load_study("tenancy-pairs")
    assert pairs.tenants == full.tenants
    shared = [mix.members for mix in pairs.mix_list() if len(mix.members) > 1]
    assert len(shared) == 7 * 6 // 2
    assert len(set(map(frozenset, shared))) == len(shared)


def test_tenancy_ratio_goes_from_encoders_only_to_decoders_only():
    shared = [mix.members for mix in load_study("tenancy-ratio").mix_list() if len(mix.members) > 1]
    assert [members.count("encoder") for members in shared] == [6, 5, 4, 3, 2, 1, 0]
    assert {len(members) for members in shared} == {6}
