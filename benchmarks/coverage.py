"""How often does each interval that is printed contain what it is about, with five seeds? docs/evidence/coverage.csv.

    python benchmarks/coverage.py && python -m fp3o.report.results_page

Seeds are normal, skewed (log-normal, skewness 3.3), or win rates of 32 battles whose chances vary between seeds: around
a half, near certainty, or near either end. Then what other intervals of a mean would have: Student's t is kept for
returns because none of them is within two points everywhere. A minute; everything is drawn from fixed seeds.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import partial
from itertools import combinations_with_replacement
from math import factorial, inf, log, prod

import numpy as np
import scipy
from numpy.typing import NDArray

from fp3o import config
from fp3o.statistics import aggregate, cost, intervals
from fp3o.statistics.rank_tests import chance_interval
from fp3o.statistics.spread import log_spread_ratio

Array = NDArray[np.float64]
TRIALS = 2000
FILE = "docs/evidence/coverage.csv"
HEADER = ("interval", "method", "seeds", "covers")


def _wins(a: float, b: float) -> Callable[[np.random.Generator, tuple[int, ...]], Array]:
    return lambda generator, shape: 100 * generator.binomial(32, generator.beta(a, b, shape)) / 32


DRAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "normal": lambda generator, shape: generator.standard_normal(shape),
    "skewed": lambda generator, shape: generator.lognormal(0, 0.75, shape),
    "wins": _wins(2, 2),
    "wins, high": _wins(8, 1),
    "wins, either end": _wins(0.5, 0.5),
}
WINS = tuple(kind for kind in DRAWS if kind.startswith("wins"))


def drawn(kind: str, *shape: int, seed: int = 0) -> Array:
    return DRAWS[kind](np.random.default_rng(seed), shape)


def truth(kind: str, statistic: Callable[[Array], float]) -> float:
    return float(statistic(drawn(kind, 400_000, seed=99)))


def share(inside: list[bool]) -> float:
    return float(np.mean(inside))


# --- Intervals that are printed: by kind of seeds, the share of trials in which they contain the truth ---------------


def means(kind: str) -> float:
    mean = truth(kind, np.mean)
    return share([intervals.mean_interval(row).contains(mean) for row in drawn(kind, TRIALS, 5).tolist()])


def shares(kind: str) -> float:
    mean, rows = truth(kind, np.mean) / 100, (drawn(kind, TRIALS, 5) / 100).tolist()
    return share([intervals.share_interval(row, 160).contains(mean) for row in rows])


def medians(kind: str) -> float:
    median = truth(kind, np.median)
    return share([intervals.median_interval(row).contains(median) for row in drawn(kind, TRIALS, 5).tolist()])


def predictions(statistic: intervals.Statistic, kind: str) -> float:
    ours, further = drawn(kind, TRIALS, 5), drawn(kind, TRIALS, 5, seed=1)
    centres = further.mean(1) if statistic == "mean" else np.median(further, 1)
    limits = (0.0, 100.0) if kind in WINS else (-inf, inf)
    pairs = zip(ours.tolist(), centres, strict=True)
    return share([intervals.prediction(row, statistic, limits).interval().contains(c) for row, c in pairs])


def differences(kind: str) -> float:
    """Of two means; returns of the second vary three times as much."""
    factor = 1 if kind in WINS else 3
    a, b = drawn(kind, TRIALS, 5, seed=12), factor * drawn(kind, TRIALS, 5, seed=13)
    expected = truth(kind, np.mean) * (1 - factor)
    found = []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        test = intervals.welch(intervals.summarise(x, "mean"), intervals.summarise(y, "mean"))
        found.append(test.interval().contains(expected))
    return share(found)


def paired_differences(kind: str) -> float:
    rows = (drawn(kind, TRIALS, 5, seed=12) - drawn(kind, TRIALS, 5, seed=13)).tolist()
    return share([intervals.mean_interval(row).contains(0.0) for row in rows])


def chances(rows: int, kind: str) -> float:
    """P(A > B), the first shifted by a deviation or 20 points."""
    shift = 1.0 if kind not in WINS else 20.0
    a, b = drawn(kind, TRIALS, rows, 5, seed=2), drawn(kind, TRIALS, rows, 5, seed=3)
    many = [drawn(kind, 100_000, seed=seed) for seed in (4, 5)]
    higher, other = ((np.minimum(x + shift, 100.0) if kind in WINS else x + shift) for x in (a, many[0]))
    chance = float((other > many[1]).mean() + 0.5 * (other == many[1]).mean())
    gaps = higher[..., :, None] - b[..., None, :]
    estimates = ((gaps > 0).mean((-2, -1)) + 0.5 * (gaps == 0).mean((-2, -1))).mean(1).round(9).tolist()
    known = {value: chance_interval(value, [(5, 5)] * rows) for value in set(estimates)}
    return share([known[value].contains(chance) for value in estimates])


def ratios_of_deviations(kind: str) -> float:
    """A varies twice as much as B, at ten evaluations that share their seed's level."""
    curves = [drawn(kind, 500, 1, 5, 1, seed=s) + drawn(kind, 500, 1, 5, 10, seed=s + 1) for s in (6, 8)]
    pairs = zip(*curves, strict=True)
    found = [log_spread_ratio(list(zip(2 * a, b, strict=True))).interval() for a, b in pairs]
    return share([interval.contains(log(2)) for interval in found])


def over_tasks(statistic: Callable[..., float], rows: int, kind: str) -> float:
    samples = drawn(kind, 500, rows, 5, seed=10)
    expected = truth(kind, statistic)
    found = [aggregate.mean_interval_of_tasks(statistic, list(one)).contains(expected) for one in samples]
    return share(found)


def interquartile(rows: int, kind: str) -> float:
    expected = truth(kind, aggregate.interquartile_mean)
    found = [aggregate.interquartile_interval(list(one)) for one in drawn(kind, 700, rows, 5, seed=10)]
    return share([one.contains(expected) for one in found])


def counts(kind: str) -> float:
    """Differences of two shares of ten and five trials; chances by kind."""
    p, q = {"wins": (0.5, 0.5), "wins, high": (0.98, 0.7), "wins, either end": (0.1, 0.5)}[kind]
    generator = np.random.default_rng(14)
    x, y = generator.binomial(10, p, TRIALS).tolist(), generator.binomial(5, q, TRIALS).tolist()
    known = {pair: intervals.share_difference(pair[0], 10, pair[1], 5) for pair in set(zip(x, y, strict=True))}
    return share([known[pair].contains(p - q) for pair in zip(x, y, strict=True)])


def ratios_of_times(paired: bool, kind: str) -> float:
    """Log-normal times of ten iterations, 10 % apart, in a ratio of 1.5; in turn, the machine changes by half."""
    assert kind == "skewed"
    generator = np.random.default_rng(15)
    a, b = (scale * generator.lognormal(0, 0.1, (TRIALS, 10)) for scale in (1.5, 1.0))
    machine = generator.lognormal(0, 0.5, (TRIALS, 10)) if paired else 1.0
    found = [cost.ratio(*pair, paired) for pair in zip((a * machine).tolist(), (b * machine).tolist(), strict=True)]
    return share([one.low <= 1.5 <= one.high for one in found])


EVERY = tuple(DRAWS)
Row = tuple[str, str, tuple[str, ...], Callable[[str], float]]
PRINTED: tuple[Row, ...] = (
    ("mean of a cell", "Student's t", EVERY, means),
    ("mean of shares (matching degree, KL)", "Wilson's, effective number of trials, t", WINS, shares),
    ("median of a cell", "order statistics; five seeds: [min, max], 93.75 %", EVERY, medians),
    ("where five further seeds fall, mean", "mean ± t·s·√(1/n + 1/5)", EVERY, partial(predictions, "mean")),
    ("the same, median", "mean ± t·s·√(1/n + 0.287), within 0 … 100 %", EVERY, partial(predictions, "median")),
    ("difference of means", "Welch", EVERY, differences),
    ("mean difference seed by seed", "Student's t", EVERY, paired_differences),
    ("P(A > B), one row", "Newcombe 2006, method 5", EVERY, partial(chances, 1)),
    ("P(A > B), six rows", "the same", EVERY, partial(chances, 6)),
    ("ratio of two deviations", "Miller's jackknife of log s, t", EVERY, ratios_of_deviations),
    ("mean over six tasks", "leaving out one run at a time, t", EVERY, partial(over_tasks, aggregate.mean_of_tasks, 6)),
    (
        "median over six tasks",
        "the same",
        ("normal", "wins"),
        partial(over_tasks, aggregate.median_of_tasks, 6),
    ),
    ("interquartile mean, one row", "Tukey–McLaughlin (winsorised), t", EVERY, partial(interquartile, 1)),
    ("interquartile mean, six tasks", "the same", EVERY, partial(interquartile, 6)),
    ("difference of two shares", "Newcombe 1998, from Wilson's", WINS, counts),
    ("ratio of times, in turn", "t of log ratios", ("skewed",), partial(ratios_of_times, True)),
    ("ratio of times, apart", "Welch of logarithms", ("skewed",), partial(ratios_of_times, False)),
)

# --- Other intervals of the mean of five seeds ------------------------------------------------------------------------

N = 5
Ends = tuple[Array, Array]


def _moments(rows: Array) -> tuple[Array, Array, Array]:
    """Mean, standard error and skewness of each row; those of equal numbers get a tiny deviation."""
    mean, deviation = rows.mean(1), np.maximum(rows.std(1, ddof=1), 1e-9)
    return mean, deviation / N**0.5, ((rows - mean[:, None]) ** 3).mean(1) / deviation**3


def student(rows: Array, freedom: float = N - 1) -> Ends:
    mean, error, _ = _moments(rows)
    half = scipy.special.stdtrit(freedom, 0.975) * error
    return mean - half, mean + half


def johnson(rows: Array) -> Ends:
    """Johnson 1978: the centre moves by the third moment."""
    _, error, skewness = _moments(rows)
    low, high = student(rows)
    shift = skewness * N**2 / ((N - 1) * (N - 2)) * error / (6 * N**0.5)
    return low + shift, high + shift


def hall(rows: Array) -> Ends:
    """Hall 1992: a cubic transformation of t that removes its skewness."""
    mean, error, skewness = _moments(rows)
    a, t = np.where(abs(skewness) > 1e-6, skewness, 1e-6), scipy.special.stdtrit(N - 1, 0.975)
    ends = [mean - error * N**0.5 * 3 / a * (np.cbrt(1 + a * (s * t / N**0.5 - a / (6 * N))) - 1) for s in (1, -1)]
    return ends[0], ends[1]


def _redrawn() -> tuple[NDArray[np.intp], Array]:
    """All ways to redraw five seeds with replacement, and their chances."""
    places = np.array(list(combinations_with_replacement(range(N), N)))
    ways = np.array([factorial(N) / prod(factorial(list(one).count(k)) for k in set(one)) for one in places.tolist()])
    return places, ways / ways.sum()


def _quantile(values: Array, weights: Array, levels: Array) -> Array:
    order = np.argsort(values, 1)
    reached = np.take_along_axis(np.broadcast_to(weights, values.shape), order, 1).cumsum(1) >= levels[:, None] - 1e-12
    return np.take_along_axis(values, np.take_along_axis(order, reached.argmax(1)[:, None], 1), 1)[:, 0]


def bootstrap_t(rows: Array) -> Ends:
    """Exact: over all redrawings but those of five equal seeds."""
    places, weights = _redrawn()
    mean, error, _ = _moments(rows)
    again, deviation = rows[:, places].mean(2), rows[:, places].std(2, ddof=1)
    weighed = weights * (deviation > 1e-12)
    weighed = weighed / np.maximum(weighed.sum(1, keepdims=True), 1e-12)
    t = (again - mean[:, None]) * N**0.5 / np.maximum(deviation, 1e-12)
    low, high = (_quantile(t, weighed, np.full(len(rows), level)) for level in (0.025, 0.975))
    return mean - high * error, mean - low * error


def bca(rows: Array) -> Ends:
    """The accelerated, bias-corrected percentile bootstrap, exact."""
    places, weights = _redrawn()
    mean, _, skewness = _moments(rows)
    again = rows[:, places].mean(2)
    below = (weights * ((again < mean[:, None]) + 0.5 * (again == mean[:, None]))).sum(1)
    bias, speed = scipy.special.ndtri(below.clip(0.001, 0.999)), skewness / (6 * N**0.5)
    moved = [bias + (bias + z) / (1 - speed * (bias + z)) for z in (-1.96, 1.96)]
    low, high = (_quantile(again, weights, scipy.special.ndtr(z).clip(1e-9, 1)) for z in moved)
    return low, high


def extremes(rows: Array) -> Ends:
    """Of the sign-flip test, inverted: five seeds cannot say more than [min, max]."""
    return rows.min(1), rows.max(1)


def empirical_likelihood(rows: Array, mean: float) -> NDArray[np.bool_]:
    """Owen's, with F's quantile in the place of χ²'s: whether it contains the mean."""
    gaps = rows - mean
    inside = (gaps.min(1) < 0) & (gaps.max(1) > 0)
    gaps = gaps[inside]
    low, high = -(1 - 1e-9) / gaps.max(1), -(1 - 1e-9) / gaps.min(1)
    for _ in range(60):
        middle = (low + high) / 2
        rises = (gaps / (1 + middle[:, None] * gaps)).sum(1) > 0
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    found = np.zeros(len(rows), bool)
    most = scipy.special.stdtrit(N - 1, 0.975) ** 2
    found[inside] = 2 * np.log1p(middle[:, None] * gaps).sum(1) <= most
    return found


METHODS: dict[str, Callable[[Array], Ends]] = {
    "Student's t": student,
    "Student's t with two degrees of freedom": partial(student, freedom=2),
    "Johnson's modified t": johnson,
    "Hall's transformation": hall,
    "bootstrap-t": bootstrap_t,
    "BCa bootstrap": bca,
    "inverted sign-flip test ([min, max])": extremes,
}


def alternative(name: str, kind: str) -> float:
    rows, mean = drawn(kind, 4000, N), truth(kind, np.mean)
    if name not in METHODS:
        return float(empirical_likelihood(rows, mean).mean())
    low, high = METHODS[name](rows)
    return float(((low <= mean) & (mean <= high)).mean())


OTHERS: tuple[Row, ...] = tuple(
    ("alternative", name, EVERY, partial(alternative, name)) for name in (*METHODS, "empirical likelihood")
)


def main() -> None:
    with (config.repository() / FILE).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        for interval, method, kinds, covers in (*PRINTED, *OTHERS):
            writer.writerows((interval, method, kind, f"{100 * covers(kind):.1f}") for kind in kinds)


if __name__ == "__main__":
    main()
