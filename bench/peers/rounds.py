"""Rounds in which all contenders take their turn (A B C, then C B A, ...), and what pairs of the same round say."""
import dataclasses
import statistics
import sys

from peers.machine import Others
from peers.runner import Failed

OURS = "espalier"


@dataclasses.dataclass
class Sample:
    figures: dict = dataclasses.field(default_factory=dict)
    others: float = 0.0  # share of the processors that strangers used meanwhile
    failure: str = ""


def turns(contenders, number):
    """Every second round the other way round, so that a machine that grows slower or faster favours none."""
    return list(contenders) if number % 2 == 0 else list(reversed(contenders))


def take(contender, measure):
    """One sample; a contender that fails has its reason in it."""
    with Others() as others:
        try:
            sample = Sample(measure(contender))
        except Failed as reason:
            sample = Sample(failure=str(reason))
            print(f"{contender.name}: {reason}", file=sys.stderr, flush=True)
    sample.others = others.share
    return sample


def play(contenders, repeat, measure):
    """All rounds. Who has failed is not tried again: it would fail again, after as long a wait."""
    rounds, failed = [], {}
    for number in range(repeat):
        samples = dict(failed)
        for contender in turns(contenders, number):
            if contender.name not in failed:
                samples[contender.name] = take(contender, measure)
        failed = {name: sample for name, sample in samples.items() if sample.failure}
        rounds.append(samples)
    return rounds


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def own_values(rounds, name, figure):
    return [r[name].figures[figure] for r in rounds if name in r and figure in r[name].figures]


def ratio(rounds, figure, peer, noise):
    """Ours by theirs within each round: median, least, most. Pairs during which strangers used more than `noise` are left out as
    long as quiet ones remain; `noisy` counts them all the same. Nothing where no round has both."""
    pairs = []
    for samples in rounds:
        ours, theirs = samples.get(OURS, Sample()), samples.get(peer, Sample())
        if figure in ours.figures and theirs.figures.get(figure):
            pairs.append((ours.figures[figure] / theirs.figures[figure], max(ours.others, theirs.others)))
    if not pairs:
        return None
    quiet = [value for value, others in pairs if others <= noise]
    used = quiet or [value for value, _ in pairs]
    return {**spread(used), "pairs": len(used), "noisy": len(pairs) - len(quiet), "others": [round(others, 3) for _, others in pairs]}
