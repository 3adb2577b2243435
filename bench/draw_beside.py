#!/usr/bin/env python3
"""Draws the JSON of bench/beside_peers.py as an SVG: pairs of bars, Espalier over one peer, each with its tokens per second.

    bench/draw_beside.py FIGURES.json OUT.svg [--peer llamacpp] --title "two Zen 4 cores, llama.cpp b11434 built for this machine"
"""
import argparse
import json
from xml.sax.saxutils import escape

OURS, THEIRS, INK, PAPER = "#2f7d4f", "#a9b4bd", "#1c2328", "#ffffff"
BAR, GAP, LEFT, WIDTH = 15, 16, 340, 960


def pairs(report, peer):
    """(label, unit, ours, theirs, ratio) in the order they are drawn; the ratio is the median of those taken within each round."""
    for row in report["rows"]:
        if row["figure"] in ("tok/s", "output tok/s") and peer in row["ratios"]:
            ours, theirs = (row["contenders"][name]["median"] for name in ("espalier", peer))
            yield f"{row['model']}: {row['load']}", row["figure"].removeprefix("output "), ours, theirs, row["ratios"][peer]["median"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures")
    parser.add_argument("out")
    parser.add_argument("--peer", default="llamacpp", help="name of the contender to draw beside")
    parser.add_argument("--title", default="")
    a = parser.parse_args()
    with open(a.figures) as file:
        rows = list(pairs(json.load(file), a.peer))
    step = 2 * BAR + GAP
    height = 56 + step * len(rows)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="system-ui, sans-serif" font-size="12">',
           f'<rect width="100%" height="100%" fill="{PAPER}"/>',
           f'<text x="12" y="22" font-size="14" font-weight="600" fill="{INK}">Espalier</text><rect x="80" y="11" width="12" height="12" fill="{OURS}"/>',
           f'<text x="112" y="22" font-size="14" fill="{INK}">{escape(a.peer)}</text><rect x="186" y="11" width="12" height="12" fill="{THEIRS}"/>',
           f'<text x="212" y="22" fill="{INK}">{escape(a.title)}</text>']
    room = WIDTH - LEFT - 150
    for i, (label, unit, ours, theirs, ratio) in enumerate(rows):
        y, most = 44 + i * step, max(ours, theirs)
        out.append(f'<text x="{LEFT - 10}" y="{y + BAR + 4}" text-anchor="end" fill="{INK}">{escape(label)}</text>')
        for at, value, colour in ((0, ours, OURS), (1, theirs, THEIRS)):
            width, top = max(2, room * value / most), y + at * BAR
            note = f"{value:,.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
            if at == 0:
                note += f" ({ratio:.2f}×)"
            out.append(f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR - 1}" fill="{colour}"/>'
                       f'<text x="{LEFT + width + 6:.1f}" y="{top + 11}" fill="{INK}">{note}</text>')
    out.append("</svg>")
    with open(a.out, "w") as file:
        file.write("\n".join(out) + "\n")


main()
