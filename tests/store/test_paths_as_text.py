"""Every function that takes a path takes it as text too."""

import cotenant

STUDY = """name: text
device: sim:t4
tenants:
  a: {workload: sgemm, params: {size: 256}}
mixes: [solo]
window: 50ms
blocks: 2
"""


def test_paths_may_be_text_from_the_study_to_its_export(tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY)
    run = str(cotenant.run(f"{tmp_path}/study.yaml", out=f"{tmp_path}/runs").folder)
    assert cotenant.sql("select count(*) from trials where block >= 0", run).rows == ((2,),)
    assert [one.damaged for one in cotenant.verify(run)] == [()]
    cotenant.export(run, "trials", f"{tmp_path}/trials.csv")
    assert (tmp_path / "trials.csv").read_text().count("\n") >= 3
    assert cotenant.report(run, out=f"{tmp_path}/page.html").html == tmp_path / "page.html"
    cotenant.db.add(run, db=f"{tmp_path}/db")
    assert cotenant.db.contents(db=f"{tmp_path}/db").home == tmp_path / "db"
