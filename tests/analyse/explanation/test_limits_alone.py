"""What limits a tenant alone, by hand."""

from types import SimpleNamespace

import pytest

from cotenant.analyse.explanation import binding


def measured(**more):
    item = SimpleNamespace(
        peak_memory_bytes=more.pop("held", 10),
        working_set_bytes=more.pop("working_set", None),
        work=SimpleNamespace(flops_per_request=more.pop("flops", 1.0)),
    )
    peaks = SimpleNamespace(memory_bytes=100, cache_bytes=50, undisturbed=more.pop("undisturbed", True))
    return binding._Measured(
        **{
            "cores": 1.0,
            "compute_share": 0.1,
            "bandwidth_share": 0.1,
            "on_cpu": True,
            "starved": False,
            "item": item,
            "peaks": peaks,
        }
        | more
    )


@pytest.mark.parametrize(
    ("more", "bound", "sure"),
    [
        ({"held": 90}, "capacity", "clear"),
        ({"held": 89, "compute_share": 0.6}, "compute", "clear"),
        ({"compute_share": 0.59}, "compute", "likely"),
        ({"compute_share": 0.4}, "compute", "likely"),
        ({"compute_share": 0.39}, "compute", "unclear"),
        ({"bandwidth_share": 0.6}, "memory bandwidth", "clear"),
        ({"compute_share": 0.15}, "compute", "unclear"),
        ({"compute_share": 0.149}, "launch or host overhead", "likely"),
        ({"bandwidth_share": 1.05}, "cache", "clear"),
        ({"bandwidth_share": 1.04}, "memory bandwidth", "clear"),
        ({"bandwidth_share": 0.2, "working_set": 50}, "cache", "clear"),
        ({"bandwidth_share": 0.2, "working_set": 51}, "memory bandwidth", "unclear"),
        ({"compute_share": 0.7, "undisturbed": False}, "compute", "unclear"),
        ({"bandwidth_share": 1.2, "undisturbed": False}, "memory bandwidth", "unclear"),
        ({"cores": 0.49}, "waiting elsewhere", "clear"),
        ({"cores": 0.5}, "launch or host overhead", "likely"),
        ({"cores": 0.49, "on_cpu": False}, "launch or host overhead", "clear"),
        ({"starved": True, "cores": 0.1, "compute_share": 0.7}, "compute", "unclear"),
        ({"compute_share": None, "bandwidth_share": None}, "unknown", "unclear"),
        ({"compute_share": None, "bandwidth_share": None, "flops": None}, "compute", "likely"),
        ({"compute_share": None, "bandwidth_share": None, "flops": None, "on_cpu": False}, "unknown", "unclear"),
    ],
)
def test_what_binds_a_tenant(more, bound, sure):
    found, how_sure, _ = binding._while_serving(measured(**more))
    assert (found, how_sure) == (bound, sure)


@pytest.mark.parametrize(
    ("foreign", "steal", "switches", "itself"),
    [
        (None, None, None, True),
        (0.09, 0.0, None, True),
        (0.1, None, None, False),
        (None, 0.1, None, False),
        (0.5, None, 5, True),
        (0.5, None, 4, False),
    ],
)
def test_a_tenant_waits_itself_if_nobody_took_its_core_or_it_yields(foreign, steal, switches, itself):
    item = SimpleNamespace(
        foreign_share=foreign, steal_share=steal, switches_voluntary=switches, seen=SimpleNamespace(n=10)
    )
    assert binding._waits_itself([item]) is itself
