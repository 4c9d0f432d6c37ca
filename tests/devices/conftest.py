"""A machine made of files, and tenants to run on it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cotenant.devices.tree import FileTree
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant
from cotenant.workloads.protocol import WorkloadSpec


class Machine:
    """/proc and /sys in a folder, written as a kernel would expose them."""

    def __init__(self, root: Path) -> None:
        self.tree = FileTree(root)

    def write(self, files: dict[str, str]) -> FileTree:
        for inner, text in files.items():
            path = self.tree.path(inner)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return self.tree


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")


@pytest.fixture
def tenants() -> Callable[..., list[Tenant]]:
    def make(*names: str, **extra: object) -> list[Tenant]:
        return [
            Tenant(name=name, of=name, workload=WorkloadSpec(name="null"), load=Load(kind="closed"), **extra)
            for name in names
        ]

    return make


@pytest.fixture
def two_cores() -> tuple[int, int]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("needs two cores")
    return cores[0], cores[1]
