"""A hundred random runs with known truth: how often the decision is right, and what it must never do."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import gamma

from cotenant.analyse.decision import Answer
from tests.analyse.decision.truth import QUANTILE, SHAPE, Truth

LIMIT_MS = 30.0
FREE = None
LAYOUTS = ("mig[3g.20gb, 4g.20gb]", "mig[4g.20gb, 3g.20gb]", "mps[25, 75]", "mps[75, 25]")


@dataclass
class Case:
    kind: str
    answer: Answer
    alone: np.ndarray
    ways: dict[str, np.ndarray]
    limit: float | None
    noise: float

    def p90(self, time_ms):
        shape = 1 / (1 / SHAPE + self.noise**2)
        return time_ms * gamma(shape, scale=1 / shape).ppf(QUANTILE)

    def keeps(self, times):
        return self.limit is None or all(self.p90(time) <= self.limit for time in times)

    def work(self, way):
        return float((self.alone / self.ways[way]).sum())

    def fairness(self, way):
        progress = self.alone / self.ways[way]
        return progress.min() / progress.max()

    @property
    def admissible(self):
        """Ways that may be recommended."""
        if not self.keeps(self.alone):
            return []
        if self.limit is not None:
            return [way for way, times in self.ways.items() if self.keeps(times)]
        return [way for way in self.ways if self.fairness(way) >= 0.5 and self.work(way) > 1]

    @property
    def right(self):
        choice = self.answer.main
        best = choice.best
        if choice.verdict == "share":
            most = max((self.work(way) for way in self.admissible), default=0.0)
            return best.cell.sharing in self.admissible and (
                self.work(best.cell.sharing) >= 0.95 * most or best.work.hi >= most
            )
        if choice.verdict == "apart":
            nothing = choice.because == "gains nothing" and max(map(self.work, self.ways)) < 1.05
            return not self.admissible or nothing
        return self._truth_inside(best)

    def _truth_inside(self, option):
        """Both the truth and its threshold lie inside an interval: no better answer is possible."""
        if self.limit is None:
            work = option.work
            return work.lo <= 1.005 and work.hi >= 1 and work.lo <= self.work(option.cell.sharing) <= work.hi
        pairs = zip(option.standings, self.ways[option.cell.sharing], strict=True)
        return any(
            one.shared.answer == "open"
            and one.shared.seen.lo <= LIMIT_MS <= one.shared.seen.hi
            and one.shared.seen.lo <= self.p90(time) <= one.shared.seen.hi
            for one, time in pairs
        )


def objectives(rng):
    alone = rng.uniform(8, 14, 2)
    return alone, {way: alone * rng.uniform(1.05, 3.2, 2) for way in ("processes", "mps", "streams")}, LIMIT_MS, 0.01


def missed_alone(rng):
    alone = np.array([rng.uniform(27, 40), rng.uniform(8, 14)])
    return alone, {way: alone * rng.uniform(1.0, 2.0, 2) for way in ("processes", "mps")}, LIMIT_MS, 0.01


def ties(rng):
    alone = rng.uniform(8, 14, 2)
    times = alone * rng.uniform(1.05, 2.6, 2)
    return alone, {"processes": times, "mps": times.copy()}, LIMIT_MS if rng.random() < 0.5 else FREE, 0.01


def noise(rng):
    alone = rng.uniform(8, 14, 2)
    ways = {way: alone * rng.uniform(1.05, 3.2) * rng.uniform(0.9, 1.1, 2) for way in ("processes", "threads")}
    return alone, ways, LIMIT_MS if rng.random() < 0.5 else FREE, float(rng.uniform(0.05, 0.15))


def one_layout(rng):
    """Everything misses except one way to partition the GPU."""
    alone = rng.uniform(8, 14, 2)
    ways = {way: rng.uniform(32, 60, 2) for way in ("processes", "mps", *LAYOUTS)}
    ways[str(rng.choice(LAYOUTS))] = rng.uniform(14, 22, 2)
    return alone, ways, LIMIT_MS, 0.01


def free(rng):
    alone = rng.uniform(8, 14, 2)
    return alone, {way: alone * rng.uniform(1.05, 3.2, 2) for way in ("processes", "mps", "streams")}, FREE, 0.01


KINDS = (objectives, missed_alone, ties, noise, one_layout, free)


def constructed(seed):
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    alone, ways, limit, noise_level = kind(rng)
    run = Truth(seed, noise=noise_level).solos(a=(alone[0], limit), b=(alone[1], limit))
    for way, times in ways.items():
        run.trials(way, {"a": (times[0], limit), "b": (times[1], limit)})
    return Case(kind.__name__, run.answer(), alone, ways, limit, noise_level)


@pytest.fixture(scope="module")
def cases():
    return [constructed(seed) for seed in range(102)]


def test_at_least_95_of_100_are_decided_right(cases):
    wrong = [(seed, case.kind, case.answer.main.because) for seed, case in enumerate(cases) if not case.right]
    assert len(wrong) <= 0.05 * len(cases), wrong


def test_at_most_20_of_100_stay_open(cases):
    assert sum(case.answer.main.verdict == "open" for case in cases) <= 0.2 * len(cases)


def test_no_missed_objective_is_recommended(cases):
    for case in cases:
        choice = case.answer.main
        if choice.verdict == "share":
            assert choice.best.kept != "missed"
            assert case.keeps(case.ways[choice.best.cell.sharing]), (case.kind, choice.best.cell.sharing)


def test_the_one_layout_that_works_is_found(cases):
    found = [case for case in cases if case.kind == "one_layout"]
    assert len(found) == 17
    assert all(case.answer.main.best.cell.sharing in case.admissible for case in found)


def test_tenants_that_miss_alone_are_named(cases):
    for case in cases:
        if case.kind == "missed_alone" and case.p90(case.alone[0]) > 1.1 * LIMIT_MS:
            assert [one.tenant for one in case.answer.missed_alone] == ["a"]


def test_among_ways_that_do_as_much_the_easiest_to_set_up_is_taken():
    times = {"a": (12, 30), "b": (12, 30)}
    run = Truth(noise=0.001).solos(a=(10, 30), b=(10, 30)).trials("mig", times).trials("processes", times)
    assert run.answer().main.best.cell.sharing == "processes"


def test_among_ways_that_do_as_much_the_one_with_more_headroom_is_taken():
    run = Truth(noise=0.001).solos(a=(10, 30), b=(10, 30))
    run.trials("processes", {"a": (11, 30), "b": (19, 30)}).trials("mig", {"a": (14.0, 30), "b": (14.0, 30)})
    assert run.answer().main.best.cell.sharing == "mig"
