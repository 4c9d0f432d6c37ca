"""Tables of what others measured: checked by line, evidence for tenants by name, and kept in the database."""

import pytest

import cotenant
from cotenant.api import db
from cotenant.errors import CotenantError, DataError
from cotenant.prediction.interference.elsewhere import foreign_table, plain_trace

V100 = "sim:v100-sxm2-16gb"
HEAD = "tenant,neighbours,sharing,alone,shared,utilisation,device\n"
GOOD = (
    f"a,,,10 ms,,90 %,{V100}\nb,,,0.02 s,,0.4,\nc,,,30/s,,60,\na,b,mps,10 ms,13 ms,,\nb,a,mps,20 ms,22 ms,,\n"
    "a,c,mps,10,15,,\n"
)


def test_times_and_rates_are_read_with_their_units():
    table = foreign_table(HEAD + GOOD, "t.csv")
    solos = {solo.name: solo.service_ns / 1e6 for solo in table.found.solos}
    assert solos == pytest.approx({"a": 10, "b": 20, "c": 1e3 / 30})
    assert table.utilisation == pytest.approx({"a": 0.9, "b": 0.4, "c": 0.6})
    assert table.device == V100
    pair = next(mix for mix in table.found.mixes if len(mix.slowdowns) == 2)
    assert sorted(estimate.est for _, estimate in pair.slowdowns) == pytest.approx([1.1, 1.3])


def test_units_may_be_in_the_names_of_columns():
    text = "tenant,neighbours,sharing,alone_per_s,shared_per_s\na,,,100,\na,a,mps,100,50\n"
    [mix] = foreign_table(text, "t").found.mixes
    assert mix.slowdowns[0][1].est == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("a,b,mps,10 ms,2 ms,,", "line 8: 'a' would be 5 times as fast beside b as alone"),
        ("a,b,mps,10 ms,13 s,,", "line 8: 'a' would be 1.3e+03 times as slow as alone"),
        ("a,b,warp,10 ms,13 ms,,", "line 8: sharing 'warp' is unknown"),
        ("a,b,mps [25,10 ms,13 ms,,", "line 8: sharing 'mps [25' is unknown"),
        ("a,b+b+b+b+b+b+b+b,mps,10 ms,13 ms,,", "line 8: it has 8 neighbours"),
        ("a,z,mps,10 ms,13 ms,,", "line 8: neighbour 'z' has no line with its time alone"),
        ("a,b,mps,10 ms,19 ms,,", "line 8: 'a' in this mix contradicts line 5"),
        ("a,c,processes,14 ms,19 ms,,", "line 8: 'a' alone contradicts line 2"),
        ("a,b,mps,10 apples,13 ms,,", "line 8: alone is '10 apples'"),
        ("a,b,mps,10 ms,13 ms,140 %,", "line 8: utilisation is '140 %'"),
        ("a,,mps,10 ms,13 ms,,", "line 8: 'a' has a figure beside others, but no neighbours"),
        (",b,mps,10 ms,13 ms,,", "line 8: it names no tenant"),
        ("a,b,mps,0,13 ms,,", "line 8: alone is '0'; it must be above 0"),
        ("a,b,mps,10,13,,sim:t4", "several devices"),
    ],
)
def test_a_table_with_a_bad_line_is_refused_by_line(line, why):
    with pytest.raises(DataError, match="Nothing was read") as problem:
        foreign_table(HEAD + GOOD + line + "\n", "t.csv")
    assert why in problem.value.message


@pytest.mark.parametrize("text", ["", "tenant,neighbours,sharing\na,b,mps\n", "x,y\n1,2\n"])
def test_a_table_without_its_columns_is_refused(text):
    with pytest.raises(DataError, match="no column"):
        foreign_table(text, "t.csv")


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(HEAD + GOOD, encoding="utf-8")
    return path


def test_every_pair_of_a_tables_tenants_is_predicted_without_a_study(table):
    found = cotenant.predict(None, device=V100, runs=[table], quiet=True)
    bases = {mix.mix: mix.tenants[0].basis for mix in found.mixes}
    assert bases[("a", "b")] == "measured elsewhere"
    assert bases[("b", "c")].endswith("mix of this tenant")
    measured = next(mix for mix in found.mixes if mix.mix == ("a", "b")).tenants[0].slowdown
    assert measured.est == pytest.approx(1.3)
    assert measured.lo < 1.3 < measured.hi


def test_a_studys_tenants_are_those_of_the_same_name(table, tmp_path):
    study = tmp_path / "study.yaml"
    study.write_text(
        f"name: s\ndevice: {V100}\nsharing: [mps]\nmixes: [solo, pairs]\n"
        "tenants:\n  a: {workload: resnet18, batch: 4}\n  b: {workload: resnet18, batch: 1}\n",
        encoding="utf-8",
    )
    [mix] = cotenant.predict(study, runs=[table], quiet=True).mixes
    assert mix.tenants[0].basis == "measured elsewhere"
    assert mix.tenants[0].latency_ms.est == pytest.approx(13.0)


def test_a_busier_neighbour_costs_more():
    assert plain_trace(1e7, 0.9).device_ns > plain_trace(1e7, 0.3).device_ns


def test_the_database_keeps_tables_of_a_device_and_predict_finds_them(table, tmp_path):
    home = tmp_path / "db"
    assert [added.how for added in db.add([table], db=home)] == ["added"]
    assert [added.how for added in db.add([table], db=home)] == ["known"]
    [listed] = db.contents(db=home).sources
    assert (listed.name, listed.kind, listed.measurements > 0) == (table.name, "table", True)
    assert cotenant.predict(None, device=V100, runs=["db"], db=home, quiet=True).mixes
    with pytest.raises(CotenantError, match="no run on"):
        cotenant.predict(None, device="sim:t4", runs=["db"], db=home, quiet=True)


def test_a_table_without_a_device_or_with_a_bad_line_is_not_added(table, tmp_path):
    home = tmp_path / "db"
    table.write_text("tenant,neighbours,sharing,alone,shared\na,,,10,\n", encoding="utf-8")
    with pytest.raises(DataError, match="doesn't say which device"):
        db.add([table], db=home)
    table.write_text(f"{HEAD}{GOOD}a,b,warp,10 ms,13 ms,,\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 8: sharing 'warp' is unknown"):
        db.add([table], db=home)
    assert not home.exists()
