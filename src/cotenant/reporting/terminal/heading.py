"""The heading before any number: the study, the device, and the verdicts of its trials."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from cotenant.analyse.sharing.summary import Summary
from cotenant.reporting.terminal.literal import literal
from cotenant.reporting.terminal.trust import errors_by_class
from cotenant.study.asked import own_loads
from cotenant.text import NOTHING

VERDICTS = ("valid", "unstable", "invalid")


def heading(manifests: Sequence[Mapping[str, Any]], summary: Summary) -> Table:
    """A few lines per run."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for manifest in manifests:
        if manifest.get("simulated"):
            table.add_row(
                Text("SIMULATED", "bold reverse magenta"), Text("a model computed this; nothing was measured")
            )
        for name, value in _settings(manifest, summary).items():
            table.add_row(name, Text(literal(value)))
    return table


def _settings(manifest: Mapping[str, Any], summary: Summary) -> dict[str, str]:
    found = manifest.get("device_description")
    model = (
        next((str(found[key]) for key in ("model", "name") if key in found), "") if isinstance(found, Mapping) else ""
    )
    ended = manifest.get("why") or manifest.get("state") or NOTHING
    return {
        "study": f"{manifest.get('study_name', NOTHING)}, seed {manifest.get('seed', NOTHING)}",
        "device": f"{manifest.get('device', NOTHING)}{f' ({model})' if model else ''}",
        "run": str(manifest.get("run", NOTHING)),
        **_loads(manifest),
        "trials": _trials(str(manifest.get("run")), summary),
        "ended": str(ended),
        **_left_out(manifest),
        **{f"error, {kind}": sentence for kind, sentence in errors_by_class(manifest).items()},
    }


def _loads(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Loads of tenants that define their own."""
    found = own_loads(manifest)
    return {"loads": ", ".join(f"{tenant} {load}" for tenant, load in found.items())} if found else {}


def _left_out(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Sharings of `sharing: all` that this device doesn't support."""
    found = manifest.get("left_out")
    return {"left out": "; ".join(str(one) for one in found)} if isinstance(found, list) and found else {}


def _trials(run: str, summary: Summary) -> str:
    count: Counter[str] = Counter()
    for mix in summary.mixes:
        if mix.cell.run == run:
            count.update(mix.trials_by_verdict)
    verdicts = ", ".join(f"{count[verdict]} {verdict}" for verdict in VERDICTS if count[verdict])
    return f"{count.total()}: {verdicts}" if verdicts else "none"
