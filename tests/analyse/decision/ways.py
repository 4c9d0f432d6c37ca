"""Ways to share with given numbers, for the rules that choose between them and word the choice."""

from cotenant.analyse.decision.answer import MixChoice
from cotenant.analyse.decision.option import MeasuredObjective, SharingOption, TenantInOption
from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.slo import Attainment
from cotenant.analyse.sharing.summary import MixSummary, TenantSummary
from cotenant.tenancy.interval import Estimate, Missing


def about(est, lo=None, hi=None, n=5):
    return Missing("nothing seen") if est is None else Estimate(est, lo, hi, n, "")


def cell(sharing="mps", mix="a+b", *, solo=False, simulated=False, load="closed(1)", settings="{}", device="cpu"):
    return Cell("run", device, simulated, settings, load, not solo, mix, sharing)


def objective(seen=20.0, limit_ms=30.0, answer="kept", *, chance=0.9, more_s=None, share=0.95, lo=None, hi=None):
    return MeasuredObjective(
        0.9, limit_ms, None if seen is None else about(seen, lo, hi), share, answer, more_s, chance
    )


def standing(name="a", shared=None, *, slowdown=1.5, alone=None, **more):
    return TenantInOption(name, name.partition("#")[0], about(slowdown), alone, shared, **more)


def way(
    sharing="mps", work=1.5, standings=None, *, half=0.1, delay=1.2, fairness=0.9, valid=3, blocks=3, failed=(),
    simulated=False, mix="a+b", ends=None, load="closed(1)",
):  # fmt: skip
    """A way whose work has an interval of this half-width, or these ends; none if the half-width is None."""
    lo, hi = ends or ((None, None) if half is None or work is None else (work - half, work + half))
    standings = (standing("a"), standing("b")) if standings is None else tuple(standings)
    metrics = {
        "stp": about(work, lo, hi),
        "antt": about(delay, delay - 0.05, delay + 0.05),
        "fairness": about(fairness),
    }
    where = cell(sharing, mix, simulated=simulated, load=load)
    summary = MixSummary(
        where, tuple(each.tenant for each in standings), blocks, {}, metrics,
        "valid", dict.fromkeys(failed, 1), {"valid": valid, "invalid": 1},
    )  # fmt: skip
    return SharingOption(summary, standings)


def with_objectives(sharing, *shared, work=1.5, **more):
    """A way whose tenants, a, b, ..., have these objectives."""
    standings = [standing(name, each) for name, each in zip("abcdefgh", shared, strict=False)]
    return way(sharing, work, standings, **more)


def choice(*options, verdict="share", because="does more work", study="FILE"):
    return MixChoice(options, verdict, because, study)


def tenant(
    name="a", *, p90=20.0, lo=None, hi=None, n=100, share=0.95, answer="met", needs_n=None, rps=10.0, requests=100,
    simulated=False, solo=False, error=None, quantile=0.9, slo_ms=30.0, slowdown=1.5, **more,
):  # fmt: skip
    """A row of the summary with an objective for nine in ten requests."""
    slo = None if slo_ms is None else Attainment(about(share, n=n), quantile, answer, needs_n)
    place = more.pop("cell", None) or cell("alone" if solo else "mps", name if solo else "a+b", solo=solo,
                                           simulated=simulated)  # fmt: skip
    given = {
        "cell": place, "tenant": name, "of": name.partition("#")[0], "blocks": 3, "requests": requests,
        "unfinished": 0, "trials_by_verdict": {"valid": 3}, "failed_checks": {}, "throughput_rps": about(rps),
        "latency_ms": {"p90": about(p90, lo, hi, n)}, "needs_seconds": {}, "mean_latency_ms": about(10.0),
        "slowdown": about(slowdown), "device_ms": about(5.0), "device_slowdown": about(1.0), "slo": slo,
        "slo_ms": slo_ms, "objectives": () if slo is None else ((slo_ms, slo),), "tokens": None,
        "goodput_rps": None, "model_error": error,
    }  # fmt: skip
    return TenantSummary(**given | more)
