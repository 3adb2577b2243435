"""Trials become figures: one engine's over the items it was asked, and a pair's over those that both compiled."""
MASKS = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
COMPILE = {"p50": 0.5, "p99": 0.99, "max": 1.0}


def percentiles(values, shares):
    ordered = sorted(values)
    return {name: ordered[min(len(ordered) - 1, int(share * len(ordered)))] for name, share in shares.items()} if ordered else {}


def verdicts(walks):
    valid, invalid = [w for w in walks if w.valid], [w for w in walks if not w.valid]
    return {"valid": len(valid), "valid_accepted": sum(w.accepted for w in valid),
            "invalid": len(invalid), "invalid_refused": sum(not w.accepted for w in invalid)}


def times(trials):
    walks = [walk for trial in trials for walk in trial.walks]
    cold, warm = [t for w in walks for t in w.cold], [t for w in walks for t in w.warm]
    return {"compile_ms": percentiles([t.compile_ms for t in trials], COMPILE), "mask_us": percentiles(cold, MASKS),
            "masks": len(cold), "warm_mask_us": percentiles(warm, MASKS)}


def slowest(asked):
    """Where to look: the slowest compilations (ms) and masks (us), and where a verdict is wrong, by the items' ids."""
    compiled = [(item["id"], trial) for item, trial in asked if trial.compiled]
    masks = [(max((t for walk in trial.walks for t in walk.cold), default=0.0), id) for id, trial in compiled]
    return {"slowest_compile_ms": sorted(((trial.compile_ms, id) for id, trial in compiled), reverse=True)[:5],
            "slowest_mask_us": sorted(masks, reverse=True)[:5],
            "wrong_verdicts": sorted({id for id, trial in compiled if any(w.valid != w.accepted for w in trial.walks)})}


def of_engine(items, trials, growth):
    """`trials`: by item, None where it was not asked."""
    asked = [(item, trial) for item, trial in zip(items, trials) if trial]
    wanted = [trial for item, trial in asked if item.get("expect", "ok") != "reject"]
    unwanted = [trial for item, trial in asked if item.get("expect", "ok") == "reject"]
    compiled = [trial for trial in wanted if trial.compiled]
    walks = [walk for trial in compiled for walk in trial.walks]
    return {"asked": len(wanted), "compiled": len(compiled), "over_limits": sum(bool(trial.failure) for trial in wanted),
            "to_refuse": len(unwanted), "refused_rightly": sum(not trial.compiled for trial in unwanted),
            "memory_growth_mib": growth, **times(compiled), **verdicts(walks), **forced_in(walks), **slowest(asked)}


def forced_in(walks):
    walks = [walk for walk in walks if walk.valid and walk.accepted]
    return {"tokens": sum(w.tokens for w in walks), "forced": sum(len(w.forced) for w in walks), "strange": sum(w.strange for w in walks)}


def shared_texts(mine, its):
    """Of one item that both compiled, the walks over its valid texts that both accept."""
    return [(a, b) for a, b in zip(mine.walks, its.walks) if a.valid and a.accepted and b.accepted]


def forced_short(both):
    """Where we force fewer tokens over the valid texts that both accept: (how many fewer, ours, theirs, id), the most first."""
    short = []
    for item, mine, its in both:
        texts = shared_texts(mine, its)
        a, b = sum(len(walk.forced) for walk, _ in texts), sum(len(walk.forced) for _, walk in texts)
        if a < b:
            short.append((b - a, a, b, item["id"]))
    return sorted(short, key=lambda found: -found[0])


def both_compiled(items, ours, theirs):
    return [(item, a, b) for item, a, b in zip(items, ours, theirs)
            if a and b and a.compiled and b.compiled and not a.failure and not b.failure]


def of_pair(items, ours, theirs):
    """Both over the items that both compiled; forced tokens over the valid texts that both accept."""
    found = both_compiled(items, ours, theirs)
    both = [(a, b) for _, a, b in found]
    texts = [pair for mine, its in both for pair in shared_texts(mine, its)]
    mine, its = times([a for a, _ in both]), times([b for _, b in both])
    out = {"items": len(both), "texts": len(texts), "ours": mine | forced_in([a for a, _ in texts]),
           "theirs": its | forced_in([b for _, b in texts])}
    out["forced_short"] = forced_short(found)
    out["more_forced_texts"] = {"ours": sum(len(a.forced) > len(b.forced) for a, b in texts),
                                "theirs": sum(len(b.forced) > len(a.forced) for a, b in texts)}
    out["ratios"] = {f"{figure} {name}": value / its[figure][name] for figure in ("compile_ms", "mask_us", "warm_mask_us")
                     for name, value in mine[figure].items() if its[figure].get(name)}
    if out["theirs"]["forced"]:
        out["ratios"]["forced"] = out["ours"]["forced"] / out["theirs"]["forced"]
    return out

