"""null, sleep and spin: what they do and refuse, and that spin is an amount of work, not of time."""

import hashlib
import subprocess
import sys
import time

import pytest

from cotenant.errors import WorkloadError
from cotenant.workloads.instrument import WORKLOADS, Null, Sleep, Spin
from cotenant.workloads.protocol import WorkloadSpec


class Here:
    torch_device = "cpu"
    default_dtype = "float32"


def test_they_are_named_and_described():
    assert [w.name for w in WORKLOADS] == ["null", "sleep", "spin"]
    assert {w.family for w in WORKLOADS} == {"instrument"}
    assert all(w.about for w in WORKLOADS)


def test_importing_them_does_not_import_torch():
    code = "import sys, cotenant.workloads.instrument; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_null_has_one_stage_that_returns_nothing_and_keeps_nothing():
    (stage,) = Null().build(WorkloadSpec(name="null"), Here()).stages
    assert stage.name == "compute"
    assert stage.run(None) is None
    assert len(stage.run.__self__) == 0


def test_null_costs_nothing():
    cost = Null().properties(WorkloadSpec(name="null", batch=8))
    assert (cost.params, cost.flops, cost.bytes_moved, cost.peak_memory_bytes) == (0, 0, 0, 0)


def test_sleep_takes_its_time():
    (stage,) = Sleep().build(WorkloadSpec(name="sleep", params={"ms": 20}), Here()).stages
    start = time.perf_counter()
    stage.run(None)
    assert time.perf_counter() - start >= 0.02


def test_spin_is_an_amount_of_work_for_each_item(monkeypatch):
    rounds = []
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", lambda kind, text, salt, n: rounds.append(n))
    (stage,) = Spin().build(WorkloadSpec(name="spin", params={"work": 700}, batch=3), Here()).stages
    stage.run(None)
    assert rounds == [700, 700, 700]


@pytest.mark.quiet
def test_four_times_the_work_takes_four_times_the_core():
    def stage(work: int):
        return Spin().build(WorkloadSpec(name="spin", params={"work": work}), Here()).stages[0].run

    def cpu_s(run) -> float:
        start = time.thread_time()
        run(None)
        return time.thread_time() - start

    small, large = stage(10_000), stage(40_000)
    ratios = sorted(cpu_s(large) / cpu_s(small) for _ in range(21))
    assert ratios[10] == pytest.approx(4, rel=0.1)


def test_spins_cost_is_not_claimed_to_be_floating_point():
    cost = Spin().properties(WorkloadSpec(name="spin"))
    assert cost.flops is None
    assert cost.bytes_moved is None


@pytest.mark.parametrize(
    ("workload", "fields", "sentence"),
    [
        (Null(), {"params": {"ms": 5}}, "`null` has no param `ms`"),
        (Null(), {"train": True}, "`null` has no train, but the tenant sets `train: true`"),
        (Sleep(), {"params": {"mss": 5}}, "`sleep` has no param `mss`"),
        (Sleep(), {"params": {"ms": -1}}, "`sleep`: param `ms` is -1: input should be greater than or equal to 0"),
        (Sleep(), {"params": {"ms": "long"}}, "`sleep`: param `ms` is 'long': input should be a valid number"),
        (Spin(), {"params": {"work": 0}}, "`spin`: param `work` is 0: input should be greater than or equal to 1"),
        (Spin(), {"dtype": "float64"}, "`spin` has no dtype, but the tenant sets `dtype: float64`"),
    ],
)
def test_unused_options_are_refused_in_one_sentence(workload, fields, sentence):
    with pytest.raises(WorkloadError) as refused:
        workload.check(WorkloadSpec(name=workload.name, **fields))
    assert refused.value.message.startswith(sentence)


def test_a_typo_in_a_param_suggests_the_nearest():
    with pytest.raises(WorkloadError) as refused:
        Sleep().check(WorkloadSpec(name="sleep", params={"mss": 5}))
    assert refused.value.hint == "did you mean ms?"
