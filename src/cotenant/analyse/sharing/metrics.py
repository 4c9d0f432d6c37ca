"""Every metric used in results: definition, formula, unit, and caveats.

`cotenant explain METRIC` and the reference page are generated from this closed list.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cotenant.text import nearest

Of = Literal["tenant", "mix", "comparison", "explanation"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One number, defined."""

    name: str
    title: str
    of: Of
    definition: str
    formula: str
    unit: str
    better: Literal["higher", "lower", "neither"]
    caveats: tuple[str, ...]
    also: tuple[str, ...] = ()
    """Synonyms for looking it up."""


def _quantile(percent: int, least: int) -> Metric:
    return Metric(
        f"p{percent}",
        f"p{percent} latency",
        "tenant",
        f"The latency that {percent} % of requests don't exceed.",
        f"smallest t such that {percent} % of (done - intended) <= t, over the requests of all usable trials",
        "ms",
        "lower",
        (
            f"It needs {least} requests: with fewer, no two of them bracket it at 95 %, and none is shown.",
            "Requests in a queue are correlated, so the interval is widened accordingly.",
            "Requests that never completed count as infinitely late.",
            "Quantiles of several tenants or trials are never averaged: their requests are pooled.",
        ),
        also={50: ("median",), 99: ("tail", "tail latency")}.get(percent, ()),
    )


METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "throughput",
            "Throughput",
            "tenant",
            "Requests served per second.",
            "requests served in the window / the time it took",
            "requests/s",
            "higher",
            (
                "Under an open load it is the offered rate, as long as the tenant keeps up.",
                "A request is a batch: items per second are the batch times this.",
            ),
            ("throughput_rps", "rate", "rps"),
        ),
        Metric(
            "goodput",
            "Goodput",
            "tenant",
            "Requests per second completed within the objective.",
            "requests with done - intended <= objective / length of the window",
            "requests/s",
            "higher",
            ("It says nothing about how late the others were.",),
            ("goodput_rps",),
        ),
        Metric(
            "latency",
            "Mean latency",
            "tenant",
            "Mean time that a user waits for a request.",
            "mean of (done - intended) over the requests served in the window, then the mean over blocks",
            "ms",
            "lower",
            (
                "It counts from the intended time, not from the start of serving: queueing is included.",
                "Requests that never completed are missing from it; if there are any, it is a lower bound.",
            ),
            ("mean_latency", "mean latency", "response time"),
        ),
        _quantile(50, 6),
        _quantile(90, 29),
        _quantile(95, 59),
        _quantile(99, 299),
        Metric(
            "ttft",
            "Time to first token",
            "tenant",
            "Time until the first token of an answer.",
            "first output - intended, over the requests that have a first output",
            "ms",
            "lower",
            (
                "It includes the wait for earlier requests: under an open load it grows before throughput falls.",
                "Only workloads that generate have it; for others `first_ns` is -1.",
                "A long prompt costs here, a long answer does not.",
            ),
            ("first token",),
        ),
        Metric(
            "tpot",
            "Time per output token",
            "tenant",
            "Time for each further token of an answer.",
            "(done - first output) / (tokens of the answer - 1)",
            "ms",
            "lower",
            (
                "A mean over one answer: a pause in the middle is averaged away.",
                "Larger batches raise it and raise throughput with it: read the two together.",
            ),
            ("time per token",),
        ),
        Metric(
            "itl",
            "Time between tokens",
            "tenant",
            "Time that a reader waits from one token to the next.",
            "from one token of an answer to its next, over all tokens after the first",
            "ms",
            "lower",
            (
                "Every pause counts: the tail shows where an answer stalled, which TPOT averages away.",
                "A server that sends several tokens in one chunk has fewer and longer gaps than tokens.",
            ),
            ("inter token latency", "time between tokens"),
        ),
        Metric(
            "headroom",
            "Headroom",
            "tenant",
            "Share of an objective's limit that is left.",
            "1 - latency at the objective's quantile / limit",
            "share",
            "higher",
            ("Latency rises steeply near saturation: 20 % of the limit may be less than 5 % of the rate.",),
            ("to spare",),
        ),
        Metric(
            "device_time",
            "Device time",
            "tenant",
            "Time the device worked on a request; on a CPU the CPU time of the tenant's process.",
            "mean of device_ns over the requests served in the window",
            "ms",
            "lower",
            (
                "CPU time of several threads adds up: it can be longer than the latency.",
                "Threads that spin while waiting use CPU time.",
            ),
            ("device_ms", "cpu time"),
        ),
        Metric(
            "slowdown",
            "Slowdown",
            "tenant",
            "How many times longer a request takes beside neighbours than alone.",
            "mean latency shared / mean latency alone, in the same block; geometric mean over blocks",
            "ratio",
            "lower",
            (
                "Alone means alone on the whole device, also for sharings that give each tenant a part of it.",
                "Under an open load it includes queueing, which grows steeply near capacity.",
                "Its interval is over blocks, which are its replicates; requests are not.",
            ),
            ("interference",),
        ),
        Metric(
            "normalised_progress",
            "Normalised progress",
            "tenant",
            "Share of its solo speed that a tenant keeps.",
            "1 / slowdown, in one block",
            "ratio",
            "higher",
            ("Noise can push it past 1.",),
            ("progress",),
        ),
        Metric(
            "slo_attainment",
            "SLO attainment",
            "tenant",
            "Share of requests completed within the objective.",
            "requests with done - intended <= objective / requests due in the window",
            "share",
            "higher",
            (
                (
                    "An objective is met or missed only when the interval of this share excludes the required "
                    "quantile; otherwise it is undecided."
                ),
            ),
            ("slo", "attainment", "objective"),
        ),
        Metric(
            "stp",
            "System throughput (STP)",
            "mix",
            "Work done together, in units of what one tenant does alone: taking turns gives 1.",
            "sum over tenants of (time alone / time shared), in each block; mean over blocks",
            "ratio",
            "higher",
            (
                "At most the number of tenants.",
                "It sums progress over tenants: a mix that starves one tenant can still have a high STP.",
                "Under an open load the amount of work is given, and STP shows how fast it gets done.",
            ),
            ("weighted speedup", "system throughput"),
        ),
        Metric(
            "antt",
            "Average normalised turnaround time (ANTT)",
            "mix",
            "The mean slowdown of a mix.",
            "mean over tenants of (time shared / time alone), in each block; mean over blocks",
            "ratio",
            "lower",
            ("1 is best. One tenant that suffers badly hides behind several that don't.",),
            ("turnaround",),
        ),
        Metric(
            "harmonic_speedup",
            "Harmonic speed-up",
            "mix",
            "Throughput and fairness in one number.",
            "tenants / sum over tenants of (time shared / time alone) = 1 / ANTT of the block",
            "ratio",
            "higher",
            ("Low as soon as any one tenant suffers badly.",),
            ("harmonic speed-up",),
        ),
        Metric(
            "fairness",
            "Fairness",
            "mix",
            "How evenly slowdown is spread over the tenants.",
            "least progress / greatest progress among the tenants, in each block; mean over blocks",
            "ratio",
            "higher",
            ("1 is even. Noise can only lower it: for two equal tenants it is a little below 1.",),
            ("unfairness",),
        ),
        Metric(
            "jain",
            "Jain's index",
            "mix",
            "How evenly progress is spread over the tenants.",
            "(sum of progress)^2 / (tenants x sum of progress^2), in each block; mean over blocks",
            "ratio",
            "higher",
            ("1 is even, 1 / tenants means that one tenant gets everything. It is far less sensitive than fairness.",),
            ("jain's index",),
        ),
        Metric(
            "ratio",
            "Ratio of two runs",
            "comparison",
            "How a tenant's time changed between two runs.",
            "geometric mean of the time per request over the blocks now / the same before; Welch's t on logarithms",
            "ratio",
            "lower",
            (
                "`slower` is shown to be beyond the margin (Holm over all rows).",
                "`same` is shown to be within it (two one-sided tests); everything else is ambiguous.",
                "Differences between two days affect all blocks of a run alike: the margin has to cover them.",
            ),
            ("change", "regression", "verdict"),
        ),
        Metric(
            "margin",
            "Margin",
            "comparison",
            "The smallest change that matters.",
            "stated beforehand, 3 % by default: a ratio within 1/(1 + margin) and 1 + margin is `same`",
            "share",
            "neither",
            ("A margin smaller than the machine's variation between runs reports that variation as regressions.",),
            ("equivalence",),
        ),
        Metric(
            "cycles_ratio",
            "Ratio in cycles",
            "comparison",
            "How the clock cycles per request changed: a change of the code, separate from that of the clock.",
            "geometric mean of (time per request x clock) now / the same before",
            "ratio",
            "lower",
            (
                "It assumes that work scales with the clock.",
                "A tenant that waits for memory takes fewer cycles at a lower clock.",
            ),
            ("cycles", "clock"),
        ),
        Metric(
            "compute_share",
            "Share of the compute peak",
            "explanation",
            "How close a tenant alone comes to the floating point rate of the device.",
            "FLOPs per request / service time / (measured peak of its number format x its threads / cores)",
            "share",
            "neither",
            ("The peak is measured on this machine with a large matrix product, not taken from a data sheet.",),
            ("flops", "compute"),
        ),
        Metric(
            "bandwidth_share",
            "Share of the memory bandwidth",
            "explanation",
            "How close a tenant alone comes to the device's memory bandwidth, if all its bytes came from memory.",
            "bytes per request / service time / measured bandwidth",
            "share",
            "neither",
            ("Above 1 the bytes come from a cache. Bytes are those that operators request.",),
            ("bandwidth", "memory bandwidth", "roofline"),
        ),
        Metric(
            "parts",
            "Parts of a slowdown",
            "explanation",
            "The factors of a slowdown: queueing, fewer cores, clock, memory and cache.",
            "latency = service x queueing; service = device time x (service / device time); device time = cycles / "
            "clock; each as a ratio shared / alone within a block",
            "ratio",
            "lower",
            (
                "They multiply to the slowdown. Without a clock sensor, clock and memory stay one part.",
                "CPU time of threads that spin counts as work.",
            ),
            ("split", "queueing", "fewer cores", "memory and cache"),
        ),
    )
}


def find_metric(name: str) -> Metric | None:
    """Look up a metric by name or synonym; case, hyphens and underscores don't matter."""
    plain = _plain(name)
    for metric in METRICS.values():
        if plain in {_plain(word) for word in (metric.name, metric.title, *metric.also)}:
            return metric
    return None


def near_metrics(name: str) -> list[str]:
    """Metrics with similar names, best first."""
    homes = {_plain(word): metric.name for metric in METRICS.values() for word in (metric.name, *metric.also)}
    close = nearest(_plain(name), homes, most=3)
    return list(dict.fromkeys(homes[word] for word in close))


def _plain(name: str) -> str:
    return name.lower().replace("_", " ").replace("-", " ").strip()
