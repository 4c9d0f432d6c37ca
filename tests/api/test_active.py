"""`run --active` measures fewer mixes, and every mix is known in the end."""

import json
import re

import pytest
from click.testing import CliRunner

import cotenant
from cotenant.cli.run import command
from cotenant.errors import CotenantError
from cotenant.prediction.interference.forecast import NAME
from cotenant.reporting.figures.material import gather
from cotenant.study import active_rounds

STUDY = """
name: five
device: sim:a100-sxm4-40gb
tenants:
  bert: {workload: bert-base-mini, batch: 4, seq: 64}
  gpt: {workload: gpt2-mini, batch: 1, seq: 64}
  net: {workload: resnet50-mini, batch: 2}
  vit: {workload: vit-b-16-mini, batch: 2}
  mobile: {workload: mobilenet-v2-mini, batch: 4}
mixes: [solo, pairs, {copies: {bert: [2], gpt: [2], net: [2], vit: [2], mobile: [2]}}]
sharing: [mps]
window: 100ms
blocks: 2
"""


@pytest.fixture
def study(tmp_path):
    file = tmp_path / "five.yaml"
    file.write_text(STUDY, encoding="utf-8")
    return file


def test_it_stops_when_the_rest_is_predicted_well_enough(study, tmp_path):
    found = cotenant.run_active(study, width=0.5, out=tmp_path / "runs")
    assert found.mixes == 15
    assert found.measured == 5  # every tenant beside the next: the prior's interval is narrow enough for the rest
    assert len(found.folders) == 1
    assert "every mix is known" in found.why
    bases = [mix.tenants[0].basis for mix in found.prediction.mixes]
    assert sum(basis.startswith("simulated") for basis in bases) == 5


def test_its_report_shows_every_mix_the_predicted_ones_hatched(study, tmp_path):
    found = cotenant.run_active(study, width=0.5, out=tmp_path / "runs")
    text = cotenant.report(found.folders[-1]).html.read_text(encoding="utf-8")
    section = text[text.index('<section id="predicted">') :]
    cells = re.findall(r'<span class="cell ([^"]+)".*?title="([^"]+)"><b>([^<]+)</b><small>([^<]+)</small>', section)
    assert len(cells) == 5 * 5  # each tenant beside each, itself included
    assert all(("hatched" in look) == ("mix" in basis) for look, basis, *_ in cells)
    assert sum("hatched" not in look for look, *_ in cells) == 2 * found.measured
    assert all(" to " in interval for *_, interval in cells)
    assert [mix.tenants for mix in gather([found.folders[-1]]).predictions[0].mixes] == [
        mix.tenants for mix in found.prediction.mixes
    ]


def test_a_prediction_that_cannot_be_read_is_one_sentence(study, tmp_path):
    folder = cotenant.run(study, overrides=["mixes=[solo]", "blocks=1"], out=tmp_path / "runs").folder
    (folder / NAME).write_text('{"device": "cpu"}', encoding="utf-8")
    with pytest.raises(CotenantError, match=r"prediction\.json can't be read: mixes: Field required"):
        cotenant.report(folder)


def test_a_width_is_of_the_simulation_not_of_its_error(study, tmp_path):
    found = cotenant.run_active(study, width=0.5, out=tmp_path / "runs")
    wide = [one for mix in found.prediction.mixes for one in mix.tenants if one.slowdown.hi > 1.6 * one.slowdown.est]
    assert wide
    assert all(one.narrowable.hi <= 1.6 * one.narrowable.est for mix in found.prediction.mixes for one in mix.tenants)


def test_it_measures_everything_if_necessary(study, tmp_path):
    found = cotenant.run_active(study, width=0.0001, out=tmp_path / "runs")
    assert found.measured == 15
    assert all(mix.tenants[0].basis.startswith("simulated") for mix in found.prediction.mixes)


def test_a_mix_is_measured_in_no_more_blocks_than_its_width_takes(study, tmp_path):
    study.write_text(STUDY.replace("blocks: 2", "blocks: 4"), encoding="utf-8")

    def bases(width):
        found = cotenant.run_active(study, width=width, out=tmp_path / f"{width}")
        return {one.basis for mix in found.prediction.mixes for one in mix.tenants if "simulated" in one.basis}

    assert bases(0.5) == {"simulated, 2 blocks"}
    assert bases(0.0001) == {"simulated, 4 blocks"}  # the study's blocks, however imprecise the answer is


def test_a_way_to_share_that_is_known_is_not_measured_again(study, tmp_path, monkeypatch):
    study.write_text(STUDY.replace("[mps]", "[mps, processes]"), encoding="utf-8")
    known = active_rounds.is_known
    monkeypatch.setattr(active_rounds, "is_known", lambda mix, width: mix.sharing == "mps" or known(mix, 0.0001))
    found = cotenant.run_active(study, out=tmp_path / "runs")
    first, *others = [
        {row[0] for row in cotenant.sql("select distinct sharing from trials where sharing <> 'alone'", folder).rows}
        for folder in found.folders
    ]
    assert first == {"mps", "processes"}
    assert others
    assert all(ways == {"processes"} for ways in others)


def test_the_command_line_reports_the_number_measured(study, tmp_path):
    done = CliRunner().invoke(
        command,
        [str(study), "--active", "--width", "50%", "--quiet", "--json", "--report", "--out", str(tmp_path / "runs")],
    )
    assert done.exit_code == 0, done.output
    assert len(list((tmp_path / "runs").rglob("report.html"))) == 1
    assert json.loads(done.stdout)["measured"] == 5
    refused = CliRunner().invoke(command, [str(study), "--active", "--width", "wide"])
    assert refused.exit_code == 2
    assert "10%" in refused.output
