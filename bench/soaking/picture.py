"""A soak's CSV as an SVG: panels over one axis of time, each with its title and unit."""
import math
import statistics
from xml.sax.saxutils import escape

INK, PAPER, GRID, WARM = "#1c2328", "#ffffff", "#dfe4e8", "#f3f5f2"
COLOURS = ("#2f7d4f", "#b3541e", "#3b6ea5", "#8a4f9e")
WIDTH, LEFT, RIGHT, TOP, PANEL, BETWEEN, POINTS = 960, 74, 176, 52, 104, 30, 480
# Title with unit, columns with their names; behind a series at rest stands its last value.
PANELS = (("memory, MiB", (("rss_mib", "resident"), ("anonymous_mib", "anonymous"), ("rss_mib at rest", "resident, at rest"))),
          ("count", (("descriptors", "descriptors"), ("threads", "threads"), ("descriptors at rest", "descriptors, at rest"))),
          ("disk, MiB", (("disk_mib", "data and cache"),)),
          ("prefix cache, tokens", (("cached_tokens", "held, all models"),)),
          ("requests, 1/s", (("request_rate", "all"), ("wrong_rate", "wrong answers"))),
          ("model loads, 1/min", (("load_rate", "loads"),)),
          ("latency, ms", (("p99_ms", "p99"), ("p50_ms", "p50"))))


def with_rates(columns):
    """The columns under load, some of them at rest, and differences of counters as rates."""
    times = columns["seconds"]
    steps = [max(1e-9, b - a) for a, b in zip([0.0, *times], times)]
    rate = lambda name, per: [per * (b - a) / step for a, b, step in zip([0.0, *columns[name]], columns[name], steps)]
    only = lambda values, at_rest: [value if bool(rests) == at_rest else math.nan for value, rests in zip(values, columns["at_rest"])]
    rested = {f"{name} at rest": only(columns[name], True) for name in ("rss_mib", "descriptors")}
    loaded = {**columns, "request_rate": rate("requests", 1), "wrong_rate": rate("wrong", 1), "load_rate": rate("model_loads", 60)}
    return {name: values if name in ("seconds", "at_rest") else only(values, False) for name, values in loaded.items()} | rested


def thinned(times, values, count=POINTS):
    """At most so many points: medians of neighbours; what is not a number is left out."""
    points = [(at, value) for at, value in zip(times, values) if math.isfinite(value)]
    size = max(1, -(-len(points) // count))
    return [tuple(map(statistics.median, zip(*points[i:i + size]))) for i in range(0, len(points), size)]


def ticks(most, about=3):
    """Round numbers from 0 on, the last at or above `most`."""
    step = 10 ** math.floor(math.log10(max(most, 1e-9) / about))
    step = next(step * factor for factor in (1, 2, 5, 10) if step * factor * about >= most)
    return [step * i for i in range(math.ceil(max(most, step) / step - 1e-9) + 1)]


def number(value):
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"


def time_axis(seconds):
    """What the axis is in, and how many seconds that is."""
    return ("hours", 3600) if seconds >= 2 * 3600 else ("minutes", 60) if seconds >= 120 else ("seconds", 1)


def panel(y, title, lines, end, unit):
    """lines: (name, points). A box with grid, scale and legend."""
    room = WIDTH - LEFT - RIGHT
    marks = ticks(max((value for _, points in lines for _, value in points), default=1))
    place = lambda at, value: (LEFT + room * at / end, y + PANEL * (1 - value / marks[-1]))
    out = [f'<text transform="translate(16 {y + PANEL / 2}) rotate(-90)" text-anchor="middle" fill="{INK}">{escape(title)}</text>']
    for mark in marks:
        at = place(0, mark)[1]
        out.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{LEFT + room}" y2="{at:.1f}" stroke="{GRID}"/>'
                   f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end" fill="{INK}">{number(mark)}</text>')
    for i, (name, points) in enumerate(lines):
        path = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[i]}" stroke-width="1.4"/>')
        last = f": {number(round(points[-1][1]))}" if "at rest" in name else ""
        out.append(f'<text x="{LEFT + room + 10}" y="{y + 14 + 16 * i}" fill="{COLOURS[i]}">{escape(name + last)}</text>')
    return out


def draw(columns, title, warm_up):
    """The text of the SVG. warm_up: the share of the time that is shaded."""
    columns = with_rates(columns)
    end = max(columns["seconds"][-1], 1e-9)
    unit, scale = time_axis(end)
    bottom = TOP + len(PANELS) * (PANEL + BETWEEN)
    room = WIDTH - LEFT - RIGHT
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom + 26}" viewBox="0 0 {WIDTH} {bottom + 26}" '
           f'font-family="system-ui, sans-serif" font-size="12" role="img">', f"<title>{escape(title)}</title>",
           f'<rect width="100%" height="100%" fill="{PAPER}"/>',
           f'<text x="12" y="22" font-size="14" font-weight="600" fill="{INK}">{escape(title)}</text>',
           f'<rect x="{LEFT}" y="{TOP}" width="{room * warm_up:.1f}" height="{bottom - TOP - BETWEEN}" fill="{WARM}"/>',
           f'<text x="{LEFT + 6}" y="{TOP - 6}" fill="{INK}">warm-up</text>']
    for i, (name, lines) in enumerate(PANELS):
        shown = [(label, points) for column, label in lines if (points := thinned(columns["seconds"], columns[column]))]
        out += panel(TOP + i * (PANEL + BETWEEN), name, shown, end, unit)
    for mark in ticks(end / scale, 6):
        if mark * scale <= end * 1.0001:
            x = LEFT + room * mark * scale / end
            out.append(f'<text x="{x:.1f}" y="{bottom - BETWEEN + 18}" text-anchor="middle" fill="{INK}">{number(mark)}</text>')
    out.append(f'<text x="{LEFT + room / 2}" y="{bottom + 12}" text-anchor="middle" fill="{INK}">time since the start, {unit}</text></svg>')
    return "\n".join(out) + "\n"
