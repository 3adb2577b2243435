"""Figures as lines of text."""

OURS = "espalier"


def number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def ratio(value):
    return "-" if value is None else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def several(found):
    return " / ".join(map(number, found.values())) if found else "-"


def percent(part, whole):
    return f"{100 * part / whole:.1f} % of {whole}" if whole else "-"


def aligned(lines):
    widths = [max(map(len, column)) for column in zip(*lines)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]


def engine_rows(figures):
    """Figures by engine; one row a figure, one column an engine."""
    cells = {
        "constraints compiled": lambda f: percent(f["compiled"], f["asked"]),
        "  over a limit": lambda f: str(f["over_limits"]),
        "to be refused, refused": lambda f: percent(f["refused_rightly"], f["to_refuse"]),
        "compile ms p50/p99/max": lambda f: several(f["compile_ms"]),
        "mask us p50/p90/p99/max, first visits": lambda f: several(f["mask_us"]),
        "mask us p50/p90/p99/max, second walk": lambda f: several(f["warm_mask_us"]),
        "  masks": lambda f: str(f["masks"]),
        "  an empty call, us": lambda f: number(f["empty_us"]) if f.get("empty_us") is not None else "-",
        "valid accepted": lambda f: percent(f["valid_accepted"], f["valid"]),
        "invalid refused": lambda f: percent(f["invalid_refused"], f["invalid"]),
        "tokens forced": lambda f: percent(f["forced"], f["tokens"]),
        "  not the tokenizer's, places": lambda f: str(f["strange"]),
        "memory growth MiB": lambda f: number(f["memory_growth_mib"]),
    }
    lines = [["", *figures]] + [[name, *map(cell, figures.values())] for name, cell in cells.items()]
    return aligned(lines)


def pair_rows(pairs):
    """What each peer and we have over the items that both compiled: ours, theirs, ours / theirs."""
    lines = [["beside", "figure", "ours", "theirs", "ours/theirs"]]
    for peer, pair in pairs.items():
        lines.append([peer, f"{pair['items']} constraints that both compile", "", "", ""])
        for figure, unit in (("compile_ms", "ms"), ("mask_us", "us"), ("warm_mask_us", "us")):
            for name, theirs in pair["theirs"][figure].items():
                lines.append(["", f"{figure.rsplit('_', 1)[0].replace('_', ' ')} {name} {unit}", number(pair["ours"][figure][name]),
                              number(theirs), ratio(pair["ratios"].get(f"{figure} {name}"))])
        if "forced" in pair["ratios"]:
            more = pair["more_forced_texts"]
            lines.append(["", f"tokens forced, of {pair['ours']['tokens']}", str(pair["ours"]["forced"]), str(pair["theirs"]["forced"]),
                          f"{pair['ratios']['forced']:.3f}"])
            lines.append(["", f"texts in which one forces more, of {pair['texts']}", str(more["ours"]), str(more["theirs"]), ""])
    return aligned(lines)


def witness_rows(pairs):
    """Tokens that somebody forces, and whether another valid document has something else there."""
    rows = []
    for peer, pair in pairs.items():
        if "forced_by_schema" not in pair:
            continue
        count = {(who, found): number for who, found, number in pair["forced_by_schema"]["counts"]}
        rows += ["", f"tokens forced by: of them another valid document goes on otherwise, none was found ({peer})"]
        for who, name in (("both", "both"), ("ours", "us only"), ("theirs", f"{peer} only")):
            rows.append(f"  {name}: {count.get((who, True), 0)}, {count.get((who, False), 0)}")
        mine, its = (count.get(("both", False), 0) + count.get((who, False), 0) for who in ("ours", "theirs"))
        if its:
            rows.append(f"  without those of which there is another document: {mine} to {its}, {mine / its:.4f}")
        rows += [f"  {who}, {other}: {item}: {before!r} then {token!r}" for who, other, item, before, token in pair["forced_by_schema"]["alone"]
                 if other == "no witness" or "accepts" in other]
    return rows


def short_rows(pairs, most):
    """The items in which a peer forces the most tokens more than we do."""
    rows = []
    for peer, pair in pairs.items():
        short = pair["forced_short"]
        if not short:
            continue
        rows.append(f"{peer} forces more in {len(short)} constraints, {sum(row[0] for row in short)} tokens in all")
        rows += [f"  {fewer:5d} fewer: {mine} to its {its}  {name}" for fewer, mine, its, name in short[:most]]
    return rows
