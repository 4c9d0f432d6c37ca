"""Every metric that results are made of: what it is, how it is computed, in which unit, and what it does not say.

One closed list, from which `cotenant explain METRIC` and the reference page are written.
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
    """Other names under which it is looked for."""


def _quantile(percent: int, least: int) -> Metric:
    return Metric(
        f"p{percent}",
        f"p{percent} latency",
        "tenant",
        f"The latency that {percent} % of requests stay within.",
        f"smallest t such that {percent} % of (done - intended) <= t, over the requests of all usable trials",
        "ms",
        "lower",
        (
            f"It needs {least} requests: with fewer, no two of them bracket it at 95 %, and none is shown.",
            "Requests in a queue resemble each other, so the interval is widened by how much they do.",
            "Requests that were never done count as infinitely late.",
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
                "Under an open load it is the rate that was asked for, as long as the tenant keeps up.",
                "A request is a batch: items per second are the batch times this.",
            ),
            ("throughput_rps", "rate", "rps"),
        ),
        Metric(
            "goodput",
            "Goodput",
            "tenant",
            "Requests per second that were done within the objective.",
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
            "What a user waits for a request, on average.",
            "mean of (done - intended) over the requests served in the window, then the mean over blocks",
            "ms",
            "lower",
            (
                "It counts from the intended time and not from the start of serving: waiting in a queue is in it.",
                "Requests that were never done are missing from it; beside them it is a lower bound.",
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
            "How long a generating tenant takes until the first token of its answer.",
            "first output - intended, over the requests that have a first output",
            "ms",
            "lower",
            (
                "It includes the wait for earlier requests: under an open load it grows before throughput falls.",
                "Only workloads that generate have it; of others `first_ns` is -1.",
                "A long prompt costs here, a long answer does not.",
            ),
            ("first token",),
        ),
        Metric(
            "tpot",
            "Time per output token",
            "tenant",
            "How long a generating tenant takes for each further token of its answer.",
            "(done - first output) / (tokens of the answer - 1)",
            "ms",
            "lower",
            (
                "A mean over one answer: a pause in the middle of it disappears here.",
                "Larger batches raise it and raise throughput with it: read the two together.",
            ),
            ("time per token",),
        ),
        Metric(
            "itl",
            "Time between tokens",
            "tenant",
            "How long a reader waits from one token to the next.",
            "from one token of an answer to its next, over all tokens after the first",
            "ms",
            "lower",
            (
                "Every pause counts for itself: the tail shows where an answer stood still, which TPOT averages away.",
                "A server that sends several tokens in one chunk has fewer and longer gaps than tokens.",
            ),
            ("inter token latency", "time between tokens"),
        ),
        Metric(
            "headroom",
            "Headroom",
            "tenant",
            "The part of an objective's limit that is left.",
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
                "Threads that spin while they wait use CPU time.",
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
                "Under an open load it holds the queueing too, which grows steeply near capacity.",
                "Its interval is over blocks, which are its replicates; requests are not.",
            ),
            ("interference",),
        ),
        Metric(
            "normalised_progress",
            "Normalised progress",
            "tenant",
            "How much of its speed alone a tenant keeps.",
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
            "Share of requests that were done within the objective.",
            "requests with done - intended <= objective / requests due in the window",
            "share",
            "higher",
            (
                (
                    "An objective is met or missed only when the interval of this share lies beyond the quantile that "
                    "was asked for; otherwise it is undecided."
                ),
            ),
            ("slo", "attainment", "objective"),
        ),
        Metric(
            "stp",
            "System throughput (STP)",
            "mix",
            "Work done together, in units of what one tenant alone does: 1 is what taking turns gives.",
            "sum over tenants of (time alone / time shared), in each block; mean over blocks",
            "ratio",
            "higher",
            (
                "At most the number of tenants.",
                "It adds up progress whoever makes it: a mix that starves one tenant can still have a high STP.",
                "Under an open load the work is given, and it says how fast it gets done.",
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
            ("1 is best. One tenant that suffers much hides behind several that don't.",),
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
            ("Low as soon as any one tenant suffers much.",),
            ("harmonic speed-up",),
        ),
        Metric(
            "fairness",
            "Fairness",
            "mix",
            "How evenly the tenants suffer.",
            "least progress / greatest progress among the tenants, in each block; mean over blocks",
            "ratio",
            "higher",
            ("1 is even. Noise can only lower it: of two equal tenants it is a little below 1.",),
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
            ("1 is even, 1 / tenants means that one has it all. It is far less sensitive than fairness.",),
            ("jain's index",),
        ),
        Metric(
            "ratio",
            "Ratio of two runs",
            "comparison",
            "How a tenant's time changed from one run to another.",
            "geometric mean of the time per request over the blocks now / the same before; Welch's t on logarithms",
            "ratio",
            "lower",
            (
                "`slower` is shown to be beyond the margin (Holm over all rows).",
                "`same` is shown to be within it (two one-sided tests); everything else is ambiguous.",
                "What differs between two days is the same in all blocks of a run: the margin has to cover it.",
            ),
            ("change", "regression", "verdict"),
        ),
        Metric(
            "margin",
            "Margin",
            "comparison",
            "The smallest change that matters.",
            "stated before looking, 3 % unless told otherwise: a ratio within 1/(1 + margin) and 1 + margin is `same`",
            "share",
            "neither",
            ("A margin below what the machine does between two runs calls the machine's moods regressions.",),
            ("equivalence",),
        ),
        Metric(
            "cycles_ratio",
            "Ratio in cycles",
            "comparison",
            "How the clock cycles per request changed: a change of the code without that of the clock.",
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
            "How near a tenant alone comes to the floating point rate of the device.",
            "FLOPs per request / service time / (measured peak of its number format x its threads / cores)",
            "share",
            "neither",
            ("The peak is measured here, with a large matrix product, and not taken from a data sheet.",),
            ("flops", "compute"),
        ),
        Metric(
            "bandwidth_share",
            "Share of the memory bandwidth",
            "explanation",
            "How near a tenant alone comes to the memory bandwidth of the device, if all its bytes came from memory.",
            "bytes per request / service time / measured bandwidth",
            "share",
            "neither",
            ("Above 1 the bytes come from a cache. Bytes are those that operators ask for.",),
            ("bandwidth", "memory bandwidth", "roofline"),
        ),
        Metric(
            "parts",
            "Parts of a slowdown",
            "explanation",
            "The factors that a slowdown is made of: queueing, fewer cores, clock, memory and cache.",
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
    """By name or by another name that people use; case, hyphens and underscores don't matter."""
    wanted = _plain(name)
    for metric in METRICS.values():
        if wanted in {_plain(one) for one in (metric.name, metric.title, *metric.also)}:
            return metric
    return None


def near_metrics(name: str) -> list[str]:
    """Metrics whose names resemble it, best first."""
    homes = {_plain(one): metric.name for metric in METRICS.values() for one in (metric.name, *metric.also)}
    close = nearest(_plain(name), homes, most=3)
    return list(dict.fromkeys(homes[one] for one in close))


def _plain(name: str) -> str:
    return name.lower().replace("_", " ").replace("-", " ").strip()
