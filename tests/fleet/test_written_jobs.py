"""`cotenant fleet`: scripts that a shell can read, manifests that YAML can, with tokens and without secrets."""

import subprocess

import pytest
import yaml

import cotenant
from cotenant.errors import FleetError, StudyError


def test_the_slurm_script_is_a_shell_script_that_starts_every_node(tmp_path):
    script = cotenant.fleet_job("slurm", "variability", nodes=10, gpus=4, hours=2)
    path = tmp_path / "job.sh"
    path.write_text(script)
    subprocess.run(["bash", "-n", path], check=True)
    assert "#SBATCH --nodes=10" in script
    assert "#SBATCH --gpus-per-node=4" in script
    assert "--nodes=9 --ntasks=9" in script, "one is the head"
    assert "RAY_AUTH_MODE=token" in script
    assert "umask 077" in script
    assert "--disable-usage-stats" in script
    assert "await_nodes 10" in script, "no node is left out because it started late"
    assert "cotenant run --resume" in script, "sent again, the job goes on"
    assert "latest=$(ls -d runs/variability/*/manifest.json" in script, "with a run of this study"


def test_words_of_the_user_stay_words():
    script = cotenant.fleet_job("slurm", "quick", nodes=1, out="runs; rm -rf /")
    assert "'runs; rm -rf /'" in script


def test_the_manifest_holds_the_study_and_refers_to_the_token(tmp_path):
    study = tmp_path / "mine.yaml"
    study.write_text("tenants: {a: {workload: sleep}}\nmixes: [solo]\n")
    text = cotenant.fleet_job("kubernetes", str(study), nodes=8, gpus=1, image="registry/cotenant:0.1")
    claim, config, job = yaml.safe_load_all(text)
    assert claim["kind"] == "PersistentVolumeClaim"
    assert config["data"]["study.yaml"] == study.read_text()
    spec = job["spec"]["rayClusterSpec"]
    assert spec["authOptions"] == {"mode": "token"}
    [group] = spec["workerGroupSpecs"]
    assert group["replicas"] == 8
    [container] = group["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 1}
    assert group["labels"] == {"cotenant": "measured"}
    assert "--devices cotenant=measured " in job["spec"]["entrypoint"], "not the head's cores"
    token = next(one for one in container["env"] if one["name"] == "RAY_AUTH_TOKEN")
    assert "value" not in token, "the token is a secret of the cluster"


def test_devices_that_the_user_names_are_quoted_for_the_pods_shell():
    text = cotenant.fleet_job("kubernetes", "quick", nodes=1, gpus=1, image="i", devices="cuda:*")
    *_, job = yaml.safe_load_all(text)
    assert "--devices 'cuda:*' " in job["spec"]["entrypoint"]


def test_what_is_wrong_shows_before_the_queue(tmp_path):
    with pytest.raises(FleetError, match="image"):
        cotenant.fleet_job("kubernetes", "quick", nodes=1)
    with pytest.raises(StudyError):
        cotenant.fleet_job("slurm", str(tmp_path / "absent.yaml"), nodes=1)
