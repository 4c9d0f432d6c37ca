"""`plan.sh` run with stand-ins for GPU tools: it sets the machine up as the plan says, and undoes what it did."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant.planning.exports.model import Model
from tests.support.exported_plans import Machine, device, files_for, plan, plan_of, seat


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path)
    yield made
    made.run("plan.sh", "down")


def settings_of(done):
    lines = done.stdout.splitlines()
    assert all(line.startswith("export ") for line in lines), done
    return dict(line.removeprefix("export ").split("=", 1) for line in lines)


def test_mps_has_a_daemon_per_gpu_and_tenants_their_shares(machine):
    made = plan_of(device("alone", seat("chat")), device("mps", seat("embed", share=60.0), seat("rank", share=40.0)))
    machine.write(files_for("shell", made, dict.fromkeys(["chat", "embed", "rank"], Model("bert-base"))))
    done = machine.run("plan.sh", "up")
    assert done.returncode == 0, done.stderr
    embed = settings_of(machine.run("plan.sh", "env", "embed"))
    assert embed["CUDA_VISIBLE_DEVICES"] == "GPU-00000001"
    assert embed["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "60"
    assert Path(embed["CUDA_MPS_PIPE_DIRECTORY"], "nvidia-cuda-mps-control.pid").exists()
    assert settings_of(machine.run("plan.sh", "env", "chat")) == {"CUDA_VISIBLE_DEVICES": "GPU-00000000"}
    ran = machine.run("plan.sh", "run", "rank", "sh", "-c", "echo $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
    assert ran.stdout == "40\n"
    done = machine.run("plan.sh", "down")
    assert done.returncode == 0, done.stderr
    assert machine.left_behind == []


def test_an_unknown_tenant_is_refused_with_the_known_ones(machine):
    machine.write(files_for("shell", plan("mps", seat("embed"), seat("chat"))))
    assert "isn't up" in machine.run("plan.sh", "env", "embed").stderr
    machine.run("plan.sh", "up")
    done = machine.run("plan.sh", "env", "nobody")
    assert done.returncode == 2
    assert "expected one of: embed chat" in done.stderr


def test_large_mig_instances_are_made_first_and_only_ours_are_removed(machine):
    (machine.tools / "mig-0").touch()
    (machine.tools / "instances-0").write_text("1:1g.10gb")
    machine.write(files_for("shell", plan("mig", seat("embed", share="1g.10gb"), seat("chat", share="4g.40gb"))))
    done = machine.run("plan.sh", "up")
    assert done.returncode == 0, done.stderr
    assert settings_of(machine.run("plan.sh", "env", "chat")) == {"CUDA_VISIBLE_DEVICES": "MIG-0-2-4g.40gb"}
    assert settings_of(machine.run("plan.sh", "env", "embed")) == {"CUDA_VISIBLE_DEVICES": "MIG-0-3-1g.10gb"}
    assert machine.run("plan.sh", "down").returncode == 0
    assert (machine.tools / "instances-0").read_text() == "1:1g.10gb"
    assert (machine.tools / "mig-0").exists(), "MIG was on before"


def test_an_up_that_fails_half_way_undoes_what_it_did(machine):
    machine.write(files_for("shell", plan("mig", seat("embed", share="1g.10gb"), seat("chat", share="4g.40gb"))))
    done = machine.run("plan.sh", "up", STAND_IN_NO_ROOM="1")
    assert done.returncode == 1
    assert "no 1g.10gb instance on GPU 0" in done.stderr
    assert (machine.tools / "instances-0").read_text() == ""
    assert not (machine.tools / "mig-0").exists()
    assert machine.left_behind == []


def test_clock_and_power_limit_are_set_and_restored(machine):
    held = replace(device("mps", seat("embed"), seat("chat")), clock_mhz=1095.0, power_limit_w=280.0)
    machine.write(files_for("shell", plan_of(held)))
    assert machine.run("plan.sh", "up").returncode == 0
    assert "-lgc 1095,1095" in machine.log
    assert "-pl 280" in machine.log
    assert machine.run("plan.sh", "down").returncode == 0
    assert "-rgc" in machine.log
    assert "-pl 400.00" in machine.log


def test_a_gpu_without_the_plans_memory_is_refused_before_anything_changes(machine):
    machine.write(files_for("shell", plan("mps", seat("embed"), seat("chat"))))
    done = machine.run("plan.sh", "up", STAND_IN_FREE_MIB="16000")
    assert done.returncode == 1
    assert "GPU 0 has 16000 MiB free; the plan needs 16384 MiB" in done.stderr
    assert machine.left_behind == []


def test_a_plan_is_up_once(machine):
    machine.write(files_for("shell", plan("mps", seat("embed"), seat("chat"))))
    assert machine.run("plan.sh", "up").returncode == 0
    again = machine.run("plan.sh", "up")
    assert again.returncode == 1
    assert "is up already" in again.stderr
    assert settings_of(machine.run("plan.sh", "env", "embed"))


def test_the_state_is_a_new_folder_of_ours_alone(machine, tmp_path):
    machine.write(files_for("shell", plan("mps", seat("embed"), seat("chat"))))
    assert machine.run("plan.sh", "up", XDG_RUNTIME_DIR="", TMPDIR=str(machine.runtime)).returncode == 0
    (state,) = machine.runtime.iterdir()
    assert state.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("trap", ["link", "open folder", "link for the record"])
def test_a_state_that_others_could_have_made_is_not_used(machine, tmp_path, trap):
    machine.write(files_for("shell", plan("mps", seat("embed"), seat("chat"))))
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o700)
    (precious / "undo").write_text("touch x\n")
    record = machine.folder / f".state-{os.getuid()}"
    theirs = tmp_path / "theirs"
    if trap == "link":
        theirs.symlink_to(precious)
    elif trap == "open folder":
        theirs.mkdir()
        theirs.chmod(0o777)
        (theirs / "undo").write_text(f"touch {tmp_path}/executed\n")
    if trap == "link for the record":
        (precious / "record").write_text("kept\n")
        record.symlink_to(precious / "record")
    else:
        record.write_text(f"{theirs}\n")
    for command in ("up", "env", "down"):
        machine.run("plan.sh", command, "embed")
    assert not (tmp_path / "executed").exists()
    assert (precious / "undo").read_text() == "touch x\n"
    if trap == "link for the record":
        assert (precious / "record").read_text() == "kept\n"


def test_scripts_pass_shellcheck(tmp_path):
    from shutil import which

    checker = which("shellcheck")
    if checker is None:
        pytest.skip("shellcheck isn't installed")
    shares = {"alone": None, "processes": None, "mps": 40.0, "mig": "3g.40gb"}
    for sharing, share in shares.items():
        for target in (
            "shell",
            "vllm",
            "triton",
            "compose",
            "systemd",
            "llama-swap",
            *(("kubernetes",) if share != 40.0 else ()),
        ):
            for name, text in files_for(target, plan(sharing, seat("chat", share=share))).items():
                if name.endswith(".sh"):
                    path = tmp_path / f"{sharing}-{target}-{name}"
                    path.write_text(text)
    done = subprocess.run([checker, *map(str, sorted(tmp_path.iterdir()))], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
