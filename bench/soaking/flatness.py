"""When is a series of samples flat? What bench/soak.py decides by.

A series is not flat when what it grew by in the time behind the warm-up is surely more than an allowance. It grew by the slope of a line
times that time: the median of the slopes between all pairs of points (Theil 1950, Sen 1968), each point being the median of neighbouring
samples over a minute and more, so that neither a peak nor which model is loaded just then makes a trend. "Surely": the lower end of the
95 % interval of that slope (Sen's, by Kendall's variance). What a short run cannot tell from noise, a longer one can.
"""
import dataclasses
import itertools
import math
import statistics

POINTS = 30
TWO_SIDED_95 = 1.96


@dataclasses.dataclass(frozen=True)
class Criterion:
    """What a column may grow by between the end of the warm-up and the end: the larger of both, in the column's unit."""
    column: str
    unit: str
    allowed: float = 0.0
    allowed_share: float = 0.0  # of the median behind the warm-up
    at_rest: bool = False       # of the rows that were taken at rest, or of the others

    @property
    def name(self):
        return self.column + (" at rest" if self.at_rest else "")

    def judge(self, columns, warm_up):
        """columns by name: "seconds" (ascending), "at_rest" and this one; warm_up: the share of the time that does not count.
        A Verdict; None without such rows."""
        times = columns["seconds"]
        begin = times[0] + warm_up * (times[-1] - times[0])
        kept = [(at, value) for at, value, rests in zip(times, columns[self.column], columns["at_rest"]) if at >= begin and bool(rests) == self.at_rest]
        if not kept:
            return None
        level = statistics.median(value for _, value in kept)
        grown = tuple(slope * (kept[-1][0] - kept[0][0]) for slope in slopes(medians(kept, POINTS)))
        return Verdict(self, level, grown, max(self.allowed, self.allowed_share * level))


@dataclasses.dataclass(frozen=True)
class Verdict:
    criterion: Criterion
    level: float    # the median behind the warm-up
    grown: tuple    # behind the warm-up: least, likeliest, most
    allowed: float

    @property
    def flat(self):
        return self.grown[0] <= self.allowed

    def __str__(self):
        unit = self.criterion.unit
        least, likeliest, most = self.grown
        return (f"{self.criterion.name}: {self.level:.1f} {unit}, grown by {likeliest:+.2f} ({least:+.2f} to {most:+.2f}) behind the warm-up, "
                f"{self.allowed:.2f} allowed: {'flat' if self.flat else 'NOT FLAT'}")


def medians(points, count):
    """At most `count` points, each the medians of neighbours."""
    size = max(1, -(-len(points) // count))
    return [tuple(map(statistics.median, zip(*points[i:i + size]))) for i in range(0, len(points), size)]


def slopes(points):
    """Of the line through the points, units a second: the ends of the 95 % interval and between them the likeliest."""
    found = sorted((b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.combinations(points, 2) if b[0] > a[0])
    if not found:
        return 0.0, 0.0, 0.0
    count = len(points)
    spread = TWO_SIDED_95 * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    least = max(0, math.floor((len(found) - spread) / 2))
    return found[least], statistics.median(found), found[len(found) - 1 - least]
