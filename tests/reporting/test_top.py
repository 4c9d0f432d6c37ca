"""`top`: readable at 80 columns, with rates over the time since the start."""

from io import StringIO

from rich.console import Console

from cotenant.reporting.terminal.server import status_parts


def tenant(name, **changes):
    lately = {
        "seconds": 60.0, "requests": 540, "device_s": 3.2, "attainment": 0.9912, "p50_ms": 12.34, "p90_ms": 45.6,
        "p99_ms": 78.9, "shed": {},
    }  # fmt: skip
    facts = {
        "tenant": name, "ready": True, "loaded": True, "objective_ms": 150.0, "share": 0.5, "part": None,
        "backlog_s": 2.34e-17, "1min": lately | changes.pop("lately", {}),
    }  # fmt: skip
    return facts | changes


def shown(*tenants, **changes):
    status = {
        "device": "sim:a100-sxm4-40gb", "basis": "simulated", "up_s": 10.0, "busy_s": 3.0, "in_flight": 2,
        "draining": False, "workers": [], "tenants": list(tenants), "promises": [],
    }  # fmt: skip
    console = Console(file=StringIO(), width=80, color_system=None)
    for part in status_parts(status | changes):
        console.print(part)
    return console.file.getvalue()


def test_rows_fit_eighty_columns_and_nothing_is_in_powers_of_ten():
    text = shown(tenant("embedder-of-documents"), tenant("reranker", backlog_s=0.25))
    assert max(map(len, text.splitlines())) <= 80
    assert "e-1" not in text
    rows = [line.split() for line in text.splitlines() if line.startswith(("embedder", "reranker"))]
    assert len(rows) == 2
    assert rows[1][1] == "54.0", "540 requests in the ten seconds since the start"
    assert "250" in rows[1]


def test_simulated_times_are_labelled_and_measured_ones_are_not():
    assert shown(tenant("a")).startswith("SIMULATED")
    assert "SIMULATED" not in shown(tenant("a"), basis="measured")


def test_what_was_not_served_is_named_below():
    assert "a not served: overloaded 1,200" in shown(tenant("a", lately={"shed": {"overloaded": 1200}}))
