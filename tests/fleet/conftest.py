"""A real cluster of three nodes, for as long as a module of tests lasts."""

import pytest


@pytest.fixture(scope="module")
def nodes():
    pytest.importorskip("ray", reason="ray isn't installed: pip install 'cotenant[ray]'")
    from benchmarks.ray_nodes import ray_nodes

    with ray_nodes(3) as cluster:
        yield cluster
