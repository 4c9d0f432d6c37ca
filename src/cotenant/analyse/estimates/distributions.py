"""Student's t, the normal, the beta and the binomial distribution. Importing scipy for them took a fifth of `show`.

Beta and t use the continued fraction of the incomplete beta function (DLMF 8.17.22), whose error stays near that of
`math.lgamma`; inverses bisect where Newton's method leaves the bracket.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

_TINY = 1e-300
_CLOSE = 1e-15
_MOST_STEPS = 100_000
_REACH = 12.0
"""Standard deviations around the mean beyond which a binomial has no mass that doubles could hold."""
_NORMAL = NormalDist()


def normal_cdf(z: float) -> float:
    """Probability below ``z``."""
    return 0.5 * math.erfc(-z / math.sqrt(2))


def beta_cdf(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b), for positive a and b."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - beta_cdf(b, a, 1 - x)
    return _scale(a, b, x) * _fraction(a, b, x) / a


def _scale(a: float, b: float, x: float) -> float:
    """x^a (1 - x)^b / B(a, b)."""
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction by Lentz's algorithm; no part of it may be 0."""
    c, d = 1.0, 1.0 / (1 - (a + b) * x / (a + 1) or _TINY)
    value = d
    for m in range(1, _MOST_STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1.0 / (1 + even * d or _TINY)
        c = 1 + even / c or _TINY
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1.0 / (1 + odd * d or _TINY)
        c = 1 + odd / c or _TINY
        value *= d * c
        if abs(d * c - 1) < _CLOSE:
            break
    return value


def beta_quantile(a: float, b: float, probability: float) -> float:
    """The x with I_x(a, b) = ``probability``."""
    mean = a / (a + b)
    spread = math.sqrt(mean * (1 - mean) / (a + b + 1))
    guess = mean + _NORMAL.inv_cdf(min(max(probability, 1e-15), 1 - 1e-15)) * spread
    return _inverse(
        lambda x: beta_cdf(a, b, x) - probability,
        lambda x: _scale(a, b, x) / (x * (1 - x)),
        (0.0, 1.0),
        guess if 0 < guess < 1 else mean,
    )


def t_cdf(df: float, t: float) -> float:
    """Probability below ``t`` of Student's t."""
    if math.isinf(df):
        return normal_cdf(t)
    tail = 0.5 * beta_cdf(df / 2, 0.5, df / (df + t * t))
    return tail if t < 0 else 1 - tail


@lru_cache(maxsize=4096)
def t_quantile(df: float, probability: float) -> float:
    """The t with this probability below it."""
    if probability == 0.5:
        return 0.0
    if probability < 0.5:
        return -t_quantile(df, 1 - probability)
    z = _NORMAL.inv_cdf(probability)
    if math.isinf(df):
        return z
    tail = 1 - probability
    most = 2.0
    while 0.5 * beta_cdf(df / 2, 0.5, df / (df + most * most)) > tail:
        most *= 4
    log = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(df * math.pi)
    guess = z + (z**3 + z) / (4 * df)
    return _inverse(
        lambda t: tail - 0.5 * beta_cdf(df / 2, 0.5, df / (df + t * t)),
        lambda t: math.exp(log - (df + 1) / 2 * math.log1p(t * t / df)),
        (0.0, most),
        guess if 0 < guess < most else most / 2,
    )


def _inverse(
    rising: Callable[[float], float], slope: Callable[[float], float], ends: tuple[float, float], guess: float
) -> float:
    """The root of a rising function between two ends."""
    low, high = ends
    x = guess
    for _ in range(200):
        value = rising(x)
        if value == 0:
            return x
        low, high = (x, high) if value < 0 else (low, x)
        steep = slope(x)
        following = x - value / steep if steep > 0 else low
        if not low < following < high:
            following = (low + high) / 2
        if abs(following - x) <= 1e-14 * abs(following) or following in (low, high):
            return following
        x = following
    return x


def binomial_cdf(n: int, q: float) -> tuple[int, npt.NDArray[np.float64]]:
    """Probabilities of at most k hits in n trials for each k from the first returned on; below it they are 0."""
    spread = math.sqrt(n * q * (1 - q))
    first = max(0, math.floor(n * q - _REACH * spread - _REACH))
    last = min(n, math.ceil(n * q + _REACH * spread + _REACH))
    k = np.arange(first, last, dtype=np.float64)
    logs = np.concatenate(([0.0], np.cumsum(np.log((n - k) / (k + 1)) + math.log(q / (1 - q)))))
    mass = np.exp(logs - logs.max())
    return first, np.cumsum(mass) / mass.sum()


def student_t(df: float, level: float = 0.95) -> float:
    """Two-sided quantile of Student's t."""
    return t_quantile(df, (1 + level) / 2)
