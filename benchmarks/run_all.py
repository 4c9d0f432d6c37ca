"""Run every benchmark and write docs/performance.md: ratios measured in one run, on the machine it names."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"


def instrument(found: dict[str, Any]) -> Iterable[str]:
    """The null tenant beside LoadGen."""
    yield f"A tenant that does nothing, {found['rounds']} rounds in turns; medians. A ratio below 1 favours cotenant."
    yield ""
    yield "| | cotenant | MLPerf LoadGen | ratio |"
    yield "|---|---|---|---|"
    for name, title in (
        ("per_request_ns", "cost per request, ns"),
        ("error_p50_us", "due until done at 1,000 requests/s, p50, µs"),
        ("error_p99_us", "due until done at 1,000 requests/s, p99, µs"),
    ):
        row = found[name]
        yield f"| {title} | {row['cotenant']:,.1f} | {row['loadgen']:,.1f} | {row['ratio']:.2f} |"
    yield ""
    yield f"Runner and sampler together use {found['runner_share']:.2%} of one core during a window."


def overhead(found: dict[str, Any]) -> Iterable[str]:
    """What timing adds to a request."""
    yield (
        f"A request of `bert-base-mini` takes {found['bare_ms']:.3f} ms in a bare loop and {found['served_ms']:.3f} ms "
        f"in the tenant's loop: ratio {found['ratio']:.4f} (median of {found['rounds']} alternating rounds)."
    )


def servers(found: dict[str, Any]) -> Iterable[str]:
    """The client of servers against a scripted one, beside peers."""
    yield (
        f"Answers of {found['tokens']} tokens from a scripted server that notes when each request arrived and each "
        f"token was sent, {found['seconds']:.0f} s at each constant rate. Errors: the tool's report minus the server's "
        "record, at the same quantile; schedule: how far requests arrived from the grid, p99; CPU: per request, of all "
        "the tool's processes, between the first request and the last."
    )
    yield ""
    yield "| tool | requests/s | TTFT error p50 / p99, ms | ITL error p50 / p99, ms | schedule, ms | CPU, ms |"
    yield "|---|---|---|---|---|---|"
    for tool, rows in found["tools"].items():
        for row in rows:
            if "failed" in row:
                yield f"| {tool} | {row['rate_rps']:.0f} | failed | | | |"
                continue
            ttft, itl = row["ttft_error_ms"], row["itl_error_ms"]
            cpu = row["reported"]["cpu_s_per_request"]
            yield (
                f"| {tool} | {row['rate_rps']:.0f} | {ttft['p50']:.2f} / {ttft['p99']:.2f} | "
                f"{itl['p50']:.2f} / {itl['p99']:.2f} | {row['noted']['schedule_error_ms']['p99']:.2f} | "
                f"{'?' if cpu is None else f'{cpu * 1e3:.2f}'} |"
            )


def servers_live(live: dict[str, Any]) -> Iterable[str]:
    """The client of servers beside peers, on a server that computes."""
    yield (
        f"On a real server ({live['program']}), {live['rounds']} rounds in turns at {live['rate_rps']:.0f} requests/s; "
        "each tool's median minus cotenant's, with its 95 % interval:"
    )
    yield ""
    yield "| tool | TTFT p50, ms | difference, ms | ITL p50, ms | difference, ms |"
    yield "|---|---|---|---|---|"
    for tool, medians in live["medians_ms"].items():
        off = live["difference_ms"].get(tool)
        shown = {name: _difference(off[name]) if off else "" for name in medians}
        ttft, itl = medians["ttft_ms"], medians["itl_ms"]
        yield f"| {tool} | {ttft:.2f} | {shown['ttft_ms']} | {itl:.2f} | {shown['itl_ms']} |"


def _difference(found: dict[str, float]) -> str:
    return f"{found['mean']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}]"


def time_to_answer(found: dict[str, Any]) -> Iterable[str]:
    """Compared with the usual script."""
    usual = found["usual"]
    yield (
        "Solos and pairs of five small models, until the widest slowdown is as precise as the usual script's, and at "
        f"most twice as wide as its median. The script ran on {' and '.join(usual['pairs'])} and their solos, "
        f"{usual['launches_run']} of its {usual['launches']} launches in {usual['seconds_run']:.0f} s; its widths are "
        "those of these pairs, its time is the mean time of a launch, of one process and of two, times their number."
    )
    yield ""
    yield "| | seconds | median half-width | widest |"
    yield "|---|---|---|---|"
    for name in ("cotenant", "usual"):
        row = found[name]
        title = "usual script" if name == "usual" else f"cotenant ({row['why']})"
        yield f"| {title} | {row['seconds']:.0f} | {row['median_width']:.1%} | {row['widest']:.1%} |"
    yield ""
    yield f"The usual script takes {found['ratio']:.1f}x the time."


def sharp(found: dict[str, Any]) -> Iterable[str]:
    """The precision reached in a minute."""
    yield "| | seconds | blocks | median half-width | widest | valid trials |"
    yield "|---|---|---|---|---|---|"
    for name, title in (("quick", "the demo"), ("busy", "the demo beside a process that takes half a core")):
        row = found[name]
        yield (
            f"| {title} | {row['seconds']:.0f} | {row['blocks']} | {row['median_half_width']:.1%} | "
            f"{row['widest_half_width']:.1%} | {row['valid_share']:.0%} |"
        )
    yield ""
    grown, replay = found["growth"], found["replay"]
    yield (
        f"Of the demo's time {found['quick']['share_of_time_in_windows']:.0%} are windows. Runner and sampler take "
        f"{found['quick']['runner_share_of_a_core']:.1%} of a core during windows, and "
        f"{found['quick']['runner_share_with_writing']:.1%} with what they do between them. In a minute of windows of "
        f"100 ms the runner grows by {grown['runner_growth_bytes_per_trial']:,.0f} bytes per trial ({grown['trials']} "
        f"trials). Its windows ten times over, {grown['windows_in_ten_minutes']:,}, take "
        f"{grown['disk_mb_in_ten_minutes']:.0f} MB on disk, and `show` of them {grown['show_s']:.1f} s. On simulated "
        "blocks of a machine whose speed varies by 1 % per second slowdowns are known to "
        f"±{replay['half_width']:.1%} after a minute."
    )


def minis(found: dict[str, Any]) -> Iterable[str]:
    """Short against long windows."""
    every = found["all"]
    ratios = {model: row["long_over_short"] for model, row in found["models"].items()}
    low, high = min(ratios, key=lambda model: ratios[model]), max(ratios, key=lambda model: ratios[model])
    yield (
        f"All {len(ratios)} small models of the catalogue, each alone: requests in long windows take "
        f"{every['long_over_short']:.3f} [{every['lo']:.3f}, {every['hi']:.3f}] times as long as in short ones "
        f"(95 %, {every['blocks']} blocks of four short windows and a long one, {found['seconds']:.0f} s). Of single "
        f"models, with few blocks each, {low} has the lowest ratio, {ratios[low]:.2f}, and {high} the highest, "
        f"{ratios[high]:.2f}; {len(found['intervals_without_one'])} of {len(ratios)} intervals don't contain 1."
    )


def nvidia_sampling(found: dict[str, Any]) -> Iterable[str]:
    """All sensors of four GPUs."""
    yield (
        f"Reading all {found['sensors']} sensors of four GPUs (V100, A100, H100, RTX 4090) of the compiled mock driver "
        f"at their natural rate, {found['values_per_s']:,.0f} values/s: {found['core_share']:.2%} of one core (median "
        f"of {found['rounds']} rounds, worst {found['worst_share']:.2%}), in the runner, never in a tenant's "
        "process, while another process keeps a core busy. "
        "The driver's own time differs on real GPUs."
    )


def analysis(found: dict[str, Any]) -> Iterable[str]:
    """`show` on long runs."""
    yield "`show` on runs of 200 trials, each in a separate process."
    yield ""
    yield "| requests | seconds | peak memory, MiB |"
    yield "|---|---|---|"
    for row in found["rows"]:
        yield f"| {row['requests']:,} | {row['seconds']:.1f} | {row['peak_mib']:.0f} |"
    yield ""
    yield f"Time per request at the largest size over that at the smallest: {found['cost_per_request_ratio']:.2f}."


def building(found: dict[str, Any]) -> Iterable[str]:
    """Compared with transformers' own construction."""
    yield f"Building a model with random weights, against `from_config`; medians of {found['repeats']}, in turns."
    yield ""
    yield "| model | cotenant, s | from_config, s | time ratio | memory ratio |"
    yield "|---|---|---|---|---|"
    for row in found["rows"]:
        ours, theirs = row["seconds"]["ours"], row["seconds"]["theirs"]
        ratios = f"{row['time_ratio']:.2f} | {row['memory_ratio']:.2f}"
        yield f"| {row['model']} | {ours:.2f} | {theirs:.2f} | {ratios} |"


def report(found: dict[str, Any]) -> Iterable[str]:
    """A page of a long run."""
    yield (
        f"`report` of {found['requests']:,} requests: {found['seconds']:.1f} s, {found['peak_mib']:.0f} MiB, "
        f"a page of {found['page_mb']:.2f} MB."
    )


def simulation(found: dict[str, Any]) -> Iterable[str]:
    """The engine."""
    rates = found["completions_per_cpu_s"]
    slowest, fastest = min(rates, key=rates.get), max(rates, key=rates.get)
    yield (
        f"Kernel completions per second of one core: {rates[slowest] / 1e6:.1f} million ({slowest}) to "
        f"{rates[fastest] / 1e6:.1f} million ({fastest})."
    )
    lengths, peaks = found["seconds_by_simulated_seconds"], found["peak_bytes_by_simulated_seconds"]
    yield (
        f"Ten times the simulated time costs {lengths['500'] / lengths['50']:.1f}x the CPU time and "
        f"{peaks['50'] / peaks['5']:.2f}x the memory; the first call takes {found['first_call_s']} s."
    )


def start_up(found: dict[str, Any]) -> Iterable[str]:
    """The command line."""
    yield (
        f"`cotenant --help`: {found['help_ms']:.0f} ms; an empty Python program: {found['python_ms']:.0f} ms "
        f"(best of {found['rounds']}, in turns)."
    )


def view(found: dict[str, Any]) -> Iterable[str]:
    """A folder of many runs in a browser."""
    yield (
        f"`view` over {found['runs']:,} runs with {found['trials']:,} trials, asked {found['rounds']} times for each. "
        f"It is ready {found['ready_s']:.1f} s after its start and knows all verdicts {found['counted_s']:.1f} s after."
    )
    yield ""
    yield "| answer | median, ms | slowest, ms |"
    yield "|---|---|---|"
    yield f"| the list, right after the start | {found['first_ms']:.0f} | {found['first_ms']:.0f} |"
    for row in found["rows"]:
        yield f"| {row['what']} | {row['median_ms']:.0f} | {row['worst_ms']:.0f} |"


def search_scoring(found: dict[str, Any]) -> Iterable[str]:
    """Scorers of a model search compared with extraction."""
    yield (
        f"Scoring {found['items']:,} items with {found['width']} features and {found['classes']:,} classes, one "
        f"thread, median of {found['candidates']} candidates; the cost grows with their number. "
        f"Extracting as many features with {found['model']}, the smallest full-size model, takes "
        f"{found['extraction_s']:.0f} s (from a part of the items)."
    )
    yield ""
    yield "| scorer | seconds per candidate | share of extraction |"
    yield "|---|---|---|"
    for row in found["rows"]:
        yield f"| {row['scorer']} | {row['seconds']:.2f} | {row['share_of_extraction']:.2%} |"
    yield ""
    yield f"TransRate with one determinant after the other takes {found['class_by_class_ratio']:.1f}x the time."


def search_siblings(found: dict[str, Any]) -> Iterable[str]:
    """Model search over siblings."""
    seconds = found["seconds"]
    yield (
        f"{found['siblings']} siblings of a small ViT that share all but the last of 12 blocks, "
        f"{found['items']:,} items, one thread; every way in its own process, until the ranking is there."
    )
    yield ""
    yield "| | seconds | against exhaustive | against halving alone |"
    yield "|---|---|---|---|"
    for name, title in (
        ("exhaustive", "exhaustive: every model sees every item"),
        ("halving", "successive halving alone"),
        ("exact", "`cotenant search --exact`"),
        ("shared", "`cotenant search`"),
    ):
        ratios = f"{seconds['exhaustive'] / seconds[name]:.1f}x | {seconds['halving'] / seconds[name]:.1f}x"
        yield f"| {title} | {seconds[name]:.1f} | {ratios} |"
    yield ""
    same = "bit for bit the same features and the same ranking" if _all_same(found) else "**different** results"
    grew, allowed = found["peak_bytes"] / 1e6, found["memory_bytes"] / 1e6
    yield (
        f"`--exact` and the exhaustive way give {same}, and both ways of halving the same finalists. Steps per item: "
        f"{found['steps_shared']} instead of {found['steps_alone']}. The process grew by at most {grew:.0f} MB with "
        f"`--memory {allowed:.0f}MB`. Predicted and actual, with intervals and baselines: "
        f"{found['predicted_s']['shared']:.1f} s and {found['actual_s']['shared']:.1f} s."
    )


def _all_same(found: dict[str, Any]) -> bool:
    return bool(found["same_features"] and found["same_exact_ranking"] and found["same_halved_ranking"])


def variability_analysis(found: dict[str, Any]) -> Iterable[str]:
    """The database at its largest."""
    yield (
        f"`db add` and `db anomalies` on {found['count']:,} rows of {found['gpus']:,} GPUs, generated; each in its own "
        "process."
    )
    yield ""
    yield "| rows | step | seconds | CPU seconds | peak memory, MiB |"
    yield "|---|---|---|---|---|"
    for row in found["rows"]:
        step = {"add": "import", "ask": "full analysis"}[row["step"]]
        yield f"| {row['what']} | {step} | {row['seconds']:.1f} | {row['cpu_s']:.1f} | {row['peak_mib']:.0f} |"


def placement(found: dict[str, Any]) -> Iterable[str]:
    """Policies at scale."""
    seconds = found["seconds"]
    each = ", ".join(f"{name} {value:.1f} s" for name, value in seconds.items())
    yield f"A replay of {found['jobs']:,} jobs on {found['gpus']:,} GPUs: {each}. `slack` is ours."


def predict(found: dict[str, Any]) -> Iterable[str]:
    """Interference."""
    small, large = found["pairs_and_triples_of_30"], found["pairs_of_1000"]
    yield (
        f"All pairs and triples of 30 tenants on 5 ways to share ({small['mixes']:,} mixes), with intervals: "
        f"{small['cpu_seconds']:.1f} CPU seconds. All {large['mixes']:,} pairs of 1,000 tenants from "
        f"{large['measured']:,} measured ones: {large['cpu_seconds']:.0f} CPU seconds; at most "
        f"{found['peak_bytes'] / 2**20:.0f} MiB."
    )


def planning(found: dict[str, Any]) -> Iterable[str]:
    """Plans for serving tenants."""
    yield (
        "Synthetic tenants that disturb each other, on devices of two kinds; cost in prices of the large one. "
        "The bound is proven by prices of the relaxation."
    )
    yield ""
    yield "| tenants | best-fit decreasing | plan | bound | above the bound | at once, s | seconds |"
    yield "|---|---|---|---|---|---|---|"
    for row in found["hundred"]:
        yield (
            f"| 100 (seed {row['seed']}) | {row['best_fit_decreasing']:.1f} | {row['cost']:.1f} | {row['bound']:.2f} | "
            f"{row['gap']:.1%} | {row['at_once_s']:.2f} | {row['seconds']:.1f} |"
        )
    row = found["thousand"]
    above = row["cost"] / row["bound"] - 1 if row["bound"] else float("nan")
    yield (
        f"| 1,000 on 400 devices | {row['best_fit_decreasing']:.1f} | {row['cost']:.1f} | {row['bound']:.1f} | "
        f"{above:.0%} | {row['at_once_s']:.2f} | {row['seconds']:.0f} |"
    )
    yield ""
    yield f"The plan for 1,000 tenants costs {row['below_greedy']:.1%} less than best-fit decreasing."


def _rounds(count: int) -> str:
    return "one round" if count == 1 else f"medians of {count} rounds in turns"


def fleet(found: dict[str, Any]) -> Iterable[str]:
    """Studies on Ray."""
    yield (
        f"Three Ray nodes on this machine, one study of {found['trials']} trials of `sleep` tenants, from the first "
        f"trial's start to the last one's end; {_rounds(found['rounds'])}."
    )
    yield ""
    yield "| nodes | seconds | speed-up | of linear |"
    yield "|---|---|---|---|"
    yield f"| without Ray | {found['local_s']:.1f} | | |"
    for count, row in found["nodes"].items():
        yield f"| {count} | {row['seconds']:.1f} | {row['speed_up']:.2f} | {row['of_linear']:.2f} |"
    yield ""
    each = [seconds / found["trials"] * 1e3 for seconds in (found["nodes"]["1"]["seconds"], found["local_s"])]
    yield (
        f"That is {each[0]:.0f} ms per trial on one Ray node and {each[1]:.0f} ms without Ray, "
        "for a window and lead of 500 ms."
    )
    large = found["fleet"]
    asked = ", ".join(
        f"`{verb}` {seconds:.1f} s ({large['database_cpu_s'][verb]:.1f} CPU s)"
        for verb, seconds in large["database_s"].items()
    )
    yield ""
    yield (
        f"{large['devices']:,} simulated GPUs with {large['trials']:,} trials in one run: {large['seconds']:.0f} s, "
        f"{large['peak_mib']:,.0f} MiB beyond the {large['cluster_mib']:,.0f} MiB of the idle cluster. In the "
        f"database: {asked}."
    )


def serve_nodes(found: dict[str, Any]) -> Iterable[str]:
    """Plans on Ray."""
    p50 = found["p50_ms"]
    added = [f"{each:.2f}" for each in found["added_ms"]]
    yield (
        f"{found['devices']} simulated devices, one actor on each of three Ray nodes of this machine, each asked "
        f"without pause, {found['requests_per_s']:.0f} requests/s in all; {found['requests']:,} requests each way, in "
        f"turns: p50 {p50['front end']:.2f} ms through one front end and {p50['direct']:.2f} ms direct to the devices' "
        f"servers. The front end adds {', '.join(added[:-1])} and {added[-1]} ms to the p50 of the devices."
    )
    yield ""
    yield (
        f"Of a plan on three Ray nodes of this machine a node was killed: its tenant was last refused "
        f"{found['lost_s']:.1f} s later, and served by a free device after that. The loss was noticed after "
        f"{found['noticed_s']:.1f} s, and loading the model took {found['load_s']:.1f} s. "
        f"{found['refused']} requests were refused meanwhile, {found['answered']} answered."
    )


SECTIONS: tuple[tuple[str, str, Callable[[dict[str, Any]], Iterable[str]]], ...] = (
    ("Start-up", "start_up", start_up),
    ("The instrument", "instrument", instrument),
    ("The client of servers", "servers", servers),
    ("The client of servers on a real one", "servers_live", servers_live),
    ("What timing adds to a request", "overhead", overhead),
    ("Reading the sensors of GPUs", "nvidia_sampling", nvidia_sampling),
    ("Analysis", "analysis", analysis),
    ("Reporting", "report", report),
    ("The database of many GPUs", "variability_analysis", variability_analysis),
    ("Studies on several nodes", "fleet", fleet),
    ("Plans on several nodes", "serve_nodes", serve_nodes),
    ("Placing jobs", "placement", placement),
    ("Planning for tenants", "planning", planning),
    ("Viewing many runs", "view", view),
    ("Simulating", "simulation", simulation),
    ("Predicting mixes", "predict", predict),
    ("Building workloads", "building", building),
    ("Searching among siblings", "search_siblings", search_siblings),
    ("Scoring candidates of a search", "search_scoring", search_scoring),
    ("Time to answer", "time_to_answer", time_to_answer),
    ("Sharp answers in a minute", "sharp", sharp),
    ("Short against long windows", "minis", minis),
)


def _measured(module: str) -> dict[str, Any]:
    """In a separate process: modules loaded by one benchmark must not count as another's memory."""
    script = Path(__file__).resolve().with_name(f"{module}.py")
    done = subprocess.run([sys.executable, str(script)], check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _kept() -> dict[str, list[str]]:
    """The sections of the current page, also those written by hand."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    parts = (part.partition("\n\n") for part in text.split("\n## ")[1:])
    return {title: body.rstrip("\n").split("\n") for title, _, body in parts}


def main(only: list[str]) -> None:
    """Measure, then write the page; with names, measure these and keep the other sections."""
    machine = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    written = f"Written by `make bench`, in parts by hand: {machine}."
    note = (
        "Each section is one run of its script and stands, with its date, until the next one; absolute times are "
        "this machine's."
    )
    head = ["# Performance", "", f"{written} {note}"]
    sections: dict[str, list[str]] = {title: [] for title, _, _ in SECTIONS} | _kept()
    failed = []
    for title, module, describe in SECTIONS:
        if only and module not in only:
            continue
        print(f"{title} ...", flush=True)
        try:
            found = _measured(module)
        except subprocess.CalledProcessError:
            failed.append(module)  # the others are still useful
            continue
        if not found:
            continue  # it needs what is not here; the section stays as it is
        sections[title] = [*describe(found), "", f"As of {datetime.now(UTC):%Y-%m-%d}."]
        lines = [line for name, body in sections.items() if body for line in ("", f"## {name}", "", *body)]
        PAGE.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")
    print(f"wrote {PAGE}")
    if failed:
        sys.exit(f"failed, and left as they were: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
