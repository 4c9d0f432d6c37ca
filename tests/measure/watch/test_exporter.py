"""`watch --export`: what is learnt as metrics, and the dashboard, the alert and the manifest that go with them."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

import cotenant
from cotenant.analyse.neighbours.watching import CPU_S, ENERGY_J, GPU_S, watched_of
from cotenant.cli.main import cli
from cotenant.cli.watch import command
from cotenant.clients.exposition import exposed
from cotenant.errors import WatchError
from cotenant.measure.watch.exporter import Exporter, page
from cotenant.measure.watch.track import Track
from tests.measure.watch.driving import address_of, free_port
from tests.support import pace
from validation.scripted_neighbours import Script, play
from validation.watching import readings

METRIC = "http_request_duration_seconds"
FILES = Path(__file__).parents[3] / "docs" / "guide" / "watch"


@pytest.fixture(scope="module")
def session():
    """An hour in which one tenant slows the other twofold."""
    a, b, _ = play(Script(seed=1, slows=2.0))
    t_s = np.arange(0.0, 3600.0, 2.0)
    watched = watched_of([readings("A", a, t_s), readings("B", b, t_s)], device="cuda:0", looks="often")
    tracks = [Track(tenant.tenant, tenant.software) for tenant in watched.tenants]
    for number, track in enumerate(tracks, start=1):
        track.add(1.0, {CPU_S: 36.0 * number, GPU_S: 360.0 * number, ENERGY_J: 1000.0 * number}, "test")
    return SimpleNamespace(latest=lambda: watched, targets=SimpleNamespace(tracks=tracks), device="cuda:0", cores=4)


def values(session, price=None):
    found = {}
    for one in exposed(page(session, price)):
        found.setdefault(one.metric, {})[one.labels.get("neighbour"), one.labels["tenant"]] = one.value
    return found


def test_slowdowns_have_their_interval_and_their_verdict(session):
    found = values(session)
    [busy] = [pair.busy for pair in session.latest().influences if pair.tenant == "B"]
    low, est, high = (found[f"cotenant_watch_slowdown{end}"]["A", "B"] for end in ("_low", "", "_high"))
    assert (low, est, high) == (busy.lo, busy.est, busy.hi)
    assert 1 < low < est < high
    assert found["cotenant_watch_slows"]["A", "B"] == 1


def test_each_tenant_has_its_use_and_with_a_price_its_cost(session):
    first, second = ((None, track.tenant) for track in session.targets.tracks)
    assert "cotenant_watch_cost_total" not in values(session)
    found = values(session, price=2.5)
    assert found["cotenant_watch_device_seconds_total"] == {first: 360.0, second: 720.0}
    assert found["cotenant_watch_energy_joules_total"] == {first: 1000.0, second: 2000.0}
    assert found["cotenant_watch_cost_total"] == {first: 0.25, second: 0.5}  # a tenth of an hour, and a fifth


def test_on_a_cpu_the_price_is_of_all_cores(session):
    track = Track("web", "histogram")
    track.add(1.0, {CPU_S: 3600.0}, "test")
    alone = SimpleNamespace(**{**vars(session), "targets": SimpleNamespace(tracks=[track])})
    assert values(alone, price=1.0)["cotenant_watch_cost_total"] == {(None, "web"): 0.25}


def test_before_the_first_look_there_is_only_use(session):
    early = SimpleNamespace(**{**vars(session), "latest": lambda: None})
    assert set(values(early)) == {
        "cotenant_watch_cpu_seconds_total", "cotenant_watch_device_seconds_total", "cotenant_watch_energy_joules_total"
    }  # fmt: skip


def test_it_is_served_while_the_session_goes_on(session):
    port = free_port()
    with Exporter(str(port), 1.0) as exporter:
        exporter.start(session)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert answer.read().decode() == page(session, 1.0)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics")


@pytest.mark.parametrize(
    ("where", "said"), [("web", "isn't a port"), ("70000", "isn't a port"), ("192.0.2.1:9109", "can't be served at")]
)
def test_an_address_that_cannot_be_served_is_one_sentence(where, said):
    with pytest.raises(WatchError, match=said):
        Exporter(where)


def test_a_taken_port_is_refused_before_anything_is_watched(app, tmp_path):
    url = address_of(app())
    with pytest.raises(WatchError, match="address already in use"):
        cotenant.watch(url, device="cpu", seconds=2, export=url.rpartition(":")[2], out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_serves_while_it_watches(app, tmp_path):
    url = address_of(app())
    port = free_port()
    words = f"-m cotenant.cli.main watch web={url} me={os.getpid()} --device cpu --histogram {METRIC} --price 1"
    words = [sys.executable, *words.split(), "--export", str(port), "--out", str(tmp_path)]
    watcher = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert "watching" in watcher.stderr.readline()
        told = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    finally:
        watcher.send_signal(signal.SIGINT)
        watcher.communicate()
    assert 'cotenant_watch_cost_total{tenant="me",device="cpu"}' in told


@pytest.mark.parametrize("options", [["--price", "2"], ["--prometheus", "http://127.0.0.1:1", "--export", "9109"]])
def test_options_that_do_not_go_together_are_refused(options):
    assert CliRunner().invoke(cli, ["watch", *options]).exit_code == 2


def test_the_dashboard_and_the_alert_ask_for_what_is_exported(session):
    names = set(values(session, price=1.0))
    dashboard = json.loads((FILES / "grafana.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    [group] = yaml.safe_load((FILES / "alerts.yaml").read_text())["groups"]
    asked += [rule["expr"] for rule in group["rules"]]
    for expression in asked:
        assert [name for name in names if name in expression], expression


def test_prometheus_accepts_metrics_and_rules(session, tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool isn't installed")
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=page(session, 1.0), text=True, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    labels = 'tenant="chat", neighbour="train", measure="latency"'
    series = f"cotenant_watch_slowdown_low{{{labels}}}"
    (tmp_path / "test.yaml").write_text(json.dumps({
        "rule_files": [str(FILES / "alerts.yaml")],
        "tests": [{
            "interval": "1m",
            "input_series": [{"series": series, "values": "1.5x30"}],
            "alert_rule_test": [
                {"eval_time": "5m", "alertname": "NeighbourSlowsTenant", "exp_alerts": []},
                {"eval_time": "15m", "alertname": "NeighbourSlowsTenant", "exp_alerts": [{
                    "exp_labels": {"severity": "warning", "tenant": "chat", "neighbour": "train", "measure": "latency"},
                    "exp_annotations": {
                        "summary": "train slows chat at least 1.5x",
                        "description": "While train is busy, chat takes this much longer (latency); the value is the "
                        "lower end of the 95 % interval.",
                    },
                }]},
            ],
        }],
    }))  # fmt: skip
    tested = subprocess.run(
        [promtool, "test", "rules", str(tmp_path / "test.yaml")], capture_output=True, text=True, check=False
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.slow
def test_a_real_prometheus_answers_the_dashboard_and_evaluates_the_alert(session, prometheus):
    port = free_port()
    panels = json.loads((FILES / "grafana.json").read_text())["panels"]
    with Exporter(str(port), 1.0) as exporter:
        exporter.start(session)
        _, url = prometheus(FILES / "alerts.yaml", watch=f"http://127.0.0.1:{port}")
        for panel in panels:
            for target in panel["targets"]:
                pace.until(lambda asked=target["expr"]: told(url, "query", query=asked)["result"], 120)
        pace.until(lambda: told(url, "alerts")["alerts"], 120)
    [alert] = told(url, "alerts")["alerts"]
    assert alert["state"] == "pending", "for ten minutes"
    assert alert["annotations"]["summary"].startswith("A slows B at least 1.")


def told(url, path, **asked):
    """What Prometheus answers; nothing while it starts."""
    address = f"{url}/api/v1/{path}?{urllib.parse.urlencode(asked)}"
    with contextlib.suppress(OSError), urllib.request.urlopen(address) as answer:
        return json.load(answer)["data"]
    return {"result": [], "alerts": []}


def test_the_manifest_starts_a_command_that_exists_on_the_port_it_names():
    file = (FILES / "Containerfile").read_text()
    [entry] = [json.loads(line.removeprefix("ENTRYPOINT ")) for line in file.splitlines() if line.startswith("ENTRY")]
    manifest = yaml.safe_load((FILES / "daemonset.yaml").read_text())
    pod = manifest["spec"]["template"]
    [container] = pod["spec"]["containers"]
    assert entry[:2] == ["cotenant", "watch"]
    given = command.make_context("watch", [*entry[2:], *container["args"]]).params
    assert given["export"].rpartition(":")[2] == str(container["ports"][0]["containerPort"])
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == str(container["ports"][0]["containerPort"])
    assert str(given["out"]) == container["volumeMounts"][0]["mountPath"]
    assert manifest["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert shlex.split(next(line for line in file.splitlines() if line.startswith("WORKDIR")))[1] == "/runs"
