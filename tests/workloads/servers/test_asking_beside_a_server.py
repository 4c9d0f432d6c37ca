"""A study that only asks running servers measures while a server of ours holds the device."""

import pytest

from cotenant.cli.main import main
from cotenant.devices import find_device
from cotenant.measure.locking import device_lock
from tests.serving.server.test_voice import backend

pytestmark = pytest.mark.slow


def test_a_study_that_only_asks_runs_beside_a_server(tmp_path, capsys):
    study = tmp_path / "asks.yaml"
    with backend() as port:
        study.write_text(
            f"""
name: asks
tenants:
  net: {{workload: "v2:http://127.0.0.1:{port}", params: {{model: scripted}}, load: poisson(50)}}
mixes: [solo]
window: 1s
blocks: 1
"""
        )
        with device_lock(find_device("cpu").lock_keys(), run="serve http://127.0.0.1:8700", purpose="serve"):
            code = main(["run", str(study), "--out", str(tmp_path / "runs")])
    said = capsys.readouterr()
    assert code in (0, 2), said.err  # valid, or measured on a machine that wasn't quiet
    assert list((tmp_path / "runs" / "asks").iterdir())
