"""The result of a dry run of `serve`, as a sentence and a table."""

from rich.table import Table
from rich.text import Text

from cotenant.serving.dry_run import Promise
from cotenant.text import duration, percent


def promise_parts(found: Promise) -> tuple[Text, Table]:
    """The answer, then each tenant."""
    broken = [one.tenant for one in found.tenants if not one.kept]
    answer = "Every objective will be met." if not broken else f"Missed: {', '.join(broken)}."
    basis = "measured here" if found.basis == "measured" else found.basis
    said = Text(f"{answer} Simulated for {duration(found.seconds)} on {found.device}, 5 seeds; costs {basis}.")
    table = Table(box=None, pad_edge=False)
    for name in ("tenant", "objective", "demand", "in time", "worst seed", ""):
        table.add_column(name, justify="left" if name in ("tenant", "") else "right")
    for one in found.tenants:
        table.add_row(
            one.tenant,
            duration(one.objective_ms / 1e3),
            percent(one.asked_share),
            percent(one.attainment),
            percent(one.worst),
            "kept" if one.kept else f"below {percent(one.quantile)}",
        )
    return said, table
