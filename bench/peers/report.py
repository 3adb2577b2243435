"""Rounds become rows, one for each figure of a load; rows become a table on stdout, or JSON."""
from peers.rounds import OURS, own_values, ratio, spread

MORE_IS_BETTER = ("tok/s", "output tok/s")


def rows_of(section, model, load, figures, rounds, noise):
    """One row for each figure: every contender's median, least, most, and ours by each peer's."""
    names = list(dict.fromkeys(name for samples in rounds for name in samples))
    failures = {name: samples[name].failure for samples in rounds for name in names if name in samples and samples[name].failure}
    rows = []
    for figure in figures:
        row = {"section": section, "model": model, "load": load, "figure": figure, "more_is_better": figure in MORE_IS_BETTER,
               "contenders": {}, "ratios": {}, "failures": failures}
        for name in names:
            if values := own_values(rounds, name, figure):
                row["contenders"][name] = {**spread(values), "values": values}
            if name != OURS and (pairs := ratio(rounds, figure, name, noise)):
                row["ratios"][name] = pairs
        if shares := own_values(rounds, OURS, "share"):
            row["share"] = spread(shares)["median"]
            row["limit"] = rounds[0][OURS].figures["limit"]
        if row["contenders"] or failures:
            rows.append(row)
        if not row["contenders"] and figure == figures[0]:
            break  # nobody has a figure: one row says it
    return rows


def _number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _ratio(value):
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _peer_cell(row, peer):
    if peer not in row["contenders"]:
        return "failed" if peer in row["failures"] else "-"
    cell = f"{_number(row['contenders'][peer]['median']):>8}"
    if pairs := row["ratios"].get(peer):
        noise = f"{max(pairs['others']):.0%}{'~' if pairs['noisy'] else ''}"
        cell += f"  {_ratio(pairs['median']):>5} ({_ratio(pairs['least'])}..{_ratio(pairs['most'])}) {noise}"
    return cell


def _cells(row, peers):
    ours = row["contenders"].get(OURS)
    return [row["model"], row["load"], row["figure"], f"{_number(ours['median']) if ours else 'failed':>8}",
            f"{row['share']:.0%} {row['limit']}" if "share" in row else "", *(_peer_cell(row, peer) for peer in peers)]


def table(rows):
    """Lines of the table, with what failed below."""
    if not rows:
        return ["nothing was measured"]
    peers = list(dict.fromkeys(name for row in rows for name in (*row["contenders"], *row["failures"]) if name != OURS))
    lines = [["model", "load", "figure", OURS, "of limit", *peers], *(_cells(row, peers) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    out = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    failures = dict.fromkeys(f"{row['model']}, {row['load']}: {name}: {reason}" for row in rows for name, reason in row["failures"].items())
    return out + ([""] + [f"failed: {line}" for line in failures] if failures else [])
