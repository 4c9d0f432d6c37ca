"""The measurements that a plan suggests run as printed, on the device that tells."""

import shlex

import pytest
from click.testing import CliRunner

import cotenant
from cotenant.cli.run import command as run_verb
from cotenant.errors import ImpossibleObjectives
from cotenant.planning.inputs.studies import measuring
from cotenant.planning.mixes.serving_plan import Measurement
from cotenant.reporting.elements import Sentence
from cotenant.reporting.results.planned import no_room_for
from cotenant.study.files import load_study
from cotenant.tenancy.load import Load

GPU = "sim:a100-sxm4-40gb"
TENANTS = """
tenants:
  net: {{workload: resnet50-mini, batch: 2, rate: 20/s, slo: {{p99: {limit}ms}}}}
  other: {{workload: resnet50-mini, batch: 2, load: "gamma(40, 2)", slo: {{p95: 100ms}}}}
"""


@pytest.fixture
def tenants(tmp_path):
    def written(limit):
        file = tmp_path / "tenants.yaml"
        file.write_text(TENANTS.format(limit=limit), encoding="utf-8")
        return file

    return written


def as_read(made, device="cuda:0"):
    """The study that the command measures."""
    words = shlex.split(made.command)
    assert words[:2] == ["cotenant", "run"]
    assert words[3:5] == ["--device", device]
    return load_study(words[2], words[6::2])


def test_objectives_decide_how_long_it_takes(tenants):
    file = tenants(50)
    entries = load_study(file).tenants
    made = measuring(Measurement(("net", "other"), GPU, "mps", "would tell"), entries, file)
    study = as_read(made)
    assert made.would == "would tell (only a real a100-sxm4-40gb can tell)"
    assert [mix.members for mix in study.mix_list()] == [("net", "other")]
    assert study.blocks.max * 2.0 * 20 >= 299  # what a p99 takes at 20 requests/s
    assert study.budget_s == 60 * made.minutes
    assert f"measure next, at most {made.minutes} min: net + other under mps on {GPU}: " in made.sentence


def test_a_replica_is_measured_at_its_part_of_the_rate(tenants):
    file = tenants(50)
    entries = load_study(file).tenants
    study = as_read(measuring(Measurement(("net",), GPU, "alone", "x", replicas=4), entries, file))
    assert study.tenants["net"].load == Load(kind="gamma", rate_rps=5.0, cv=1.0)
    made = measuring(Measurement(("net",), "cpu", "alone", "would tell"), entries, file)
    assert as_read(made, "cpu").tenants["net"].load.rate_rps == 20
    assert made.sentence.endswith("net alone on cpu: would tell")


def test_an_objective_that_only_the_upper_end_misses_has_a_measurement_that_runs(tenants, tmp_path):
    made = cotenant.plan(tenants(5.2), GPU, seconds=2, quiet=True)
    (refusal,) = made.refusals
    assert "needs 3 replicas" in refusal.reason
    assert "with a single replica its estimate meets every objective, its upper end doesn't" in refusal.measure.would
    words = shlex.split(refusal.measure.command)
    assert words[3:5] == ["--device", "cuda:0"]
    done = CliRunner().invoke(run_verb, [words[2], "--device", GPU, *words[5:], "-q", "--out", str(tmp_path / "runs")])
    assert done.exit_code in {0, 2}, done.output
    shown = " ".join(element.text for element in no_room_for(made) if isinstance(element, Sentence))
    assert refusal.measure.sentence in shown
    assert refusal.measure.command in shown


def test_an_objective_that_the_estimate_misses_needs_no_measurement(tenants):
    with pytest.raises(ImpossibleObjectives) as caught:
        cotenant.plan(tenants(1.5), GPU, seconds=2, quiet=True)
    assert "cotenant run" not in caught.value.hint
