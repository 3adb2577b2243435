"""When is a series of samples flat? What bench/soak.py decides by.

A series is flat when what it grew by in the time behind the warm-up is no more than an allowance. It grew by the slope of a line
times that time; the slope is the median of the slopes between all pairs of points (Theil and Sen), each point being the median
of neighbouring samples, so that neither a peak nor a few outliers make a trend, and a trend is not hidden by noise around it.
"""
import dataclasses
import itertools
import statistics

POINTS = 120


@dataclasses.dataclass(frozen=True)
class Criterion:
    """What a column may grow by between the end of the warm-up and the end: the larger of both, in the column's unit."""
    column: str
    unit: str
    allowed: float = 0.0
    allowed_share: float = 0.0  # of the median behind the warm-up

    def judge(self, times, values, warm_up):
        """times in seconds, ascending; warm_up: the share of the time that does not count. A Verdict."""
        begin = times[0] + warm_up * (times[-1] - times[0])
        kept = [(at, value) for at, value in zip(times, values) if at >= begin]
        level = statistics.median(value for _, value in kept)
        grown = slope(medians(kept, POINTS)) * (kept[-1][0] - kept[0][0])
        return Verdict(self, level, grown, max(self.allowed, self.allowed_share * level))


@dataclasses.dataclass(frozen=True)
class Verdict:
    criterion: Criterion
    level: float    # the median behind the warm-up
    grown: float    # behind the warm-up
    allowed: float

    @property
    def flat(self):
        return self.grown <= self.allowed

    def __str__(self):
        unit = self.criterion.unit
        return (f"{self.criterion.column}: {self.level:.1f} {unit}, grown by {self.grown:+.2f} {unit} behind the warm-up, "
                f"{self.allowed:.2f} allowed: {'flat' if self.flat else 'NOT FLAT'}")


def medians(points, count):
    """At most `count` points, each the medians of neighbours."""
    size = max(1, -(-len(points) // count))
    return [tuple(map(statistics.median, zip(*points[i:i + size]))) for i in range(0, len(points), size)]


def slope(points):
    """Of the line through the points, units a second; 0 where one cannot be told."""
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.combinations(points, 2) if b[0] > a[0]]
    return statistics.median(slopes) if slopes else 0.0
