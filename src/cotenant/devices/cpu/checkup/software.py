"""The software a measurement runs on: torch, threads, Python, disk."""

import os
import platform
import shutil
from pathlib import Path

from cotenant.devices.cpu.core_sharing import thread_environment as _thread_environment
from cotenant.devices.cpu.cores import Cores
from cotenant.devices.cpu.machine import version_of
from cotenant.devices.protocol import Finding

_MIB = 1 << 20
_GIB = 1 << 30


def torch_build(cores: Cores) -> Finding:
    """Check that torch is installed, without importing it, which would take a second."""
    version = version_of("torch")
    if version is None:
        fix = 'pip install torch --index-url https://download.pytorch.org/whl/cpu && pip install "cotenant[models]"'
        return Finding("torch", "warning", "torch is not installed: only servers can be measured", fix)
    return Finding("torch", "ok", f"{version}; tenants get {len(cores)} threads each by default")


def thread_environment() -> Finding | None:
    """Thread settings in the user's environment that tenants won't inherit."""
    ours = _thread_environment(1)
    inherited = [f"{name}={os.environ[name]}" for name in ours if name in os.environ and ours[name] != os.environ[name]]
    if not inherited:
        return None
    text = f"{', '.join(inherited)}: ignored, the sharing mode sets them for each tenant"
    return Finding("thread variables", "note", text, "set `threads` of a tenant in the study instead")


def waiting_threads(cores: Cores) -> Finding | None:
    """Check whether threads that wait for each other spin."""
    if len(cores) == 1:
        return None
    policy = os.environ.get("OMP_WAIT_POLICY", "PASSIVE")
    if policy.lower() == "passive":
        return Finding("waiting threads", "ok", "they sleep (OMP_WAIT_POLICY=PASSIVE)")
    text = (
        f"they spin (OMP_WAIT_POLICY={policy}): tenants with several threads may slow each other down many times over"
    )
    return Finding("waiting threads", "note", text, "unset OMP_WAIT_POLICY, or give tenants `threads: 1`")


def python_version() -> Finding:
    """The Python version."""
    return Finding("Python", "ok", f"{platform.python_implementation()} {platform.python_version()}")


def disk_space(folder: Path) -> Finding:
    """Check that records can be written here."""
    free = shutil.disk_usage(folder).free
    text = f"{free / _GIB:.1f} GiB free in {folder}"
    if not os.access(folder, os.W_OK):
        return Finding("disk", "problem", f"{folder} can't be written", "change to a folder you can write to")
    if free < 100 * _MIB:
        return Finding("disk", "problem", f"{text}: records of a run may not fit", "free some space")
    return Finding("disk", "ok" if free >= _GIB else "warning", text)
