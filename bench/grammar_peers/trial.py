"""One engine at one constraint: compile it, walk every text of it twice (never seen, then warm), look for what is forced."""
import dataclasses

from grammar_peers.engines import Failed


@dataclasses.dataclass
class Walk:
    valid: bool           # what the text is
    accepted: bool        # what the engine says: every token allowed, and the text may end there
    tokens: int
    cold: list            # microseconds of each mask, as the text is read the first time
    warm: list            # the same in the second walk
    forced: tuple = ()    # places of the tokens that needed no pass of a model, jumping from place to place
    strange: int = 0      # places where forced tokens are not those that the tokenizer gives


@dataclasses.dataclass
class Trial:
    compiled: bool
    failure: str = ""     # a limit; refused() otherwise when not compiled
    error: str = ""
    compile_ms: float = 0.0
    walks: list = dataclasses.field(default_factory=list)


def jumped(tokens, forced):
    """Which tokens are forced when every forced run is jumped over, and how many runs leave the text's own tokens."""
    at, places, strange = 0, [], 0
    while at < len(forced):
        run = forced[at][1] if forced[at] else []
        own = tokens[at:at + len(run)]
        same = next((i for i, (a, b) in enumerate(zip(run, own)) if a != b), len(own))
        strange += same < len(own)
        places += range(at, at + same)
        at += same or 1
    return tuple(places), strange


def walk_of(engine, grammar, test, clock, seconds):
    request = {"op": "walk", "id": grammar, "tokens": test["tokens"]}
    cold = engine.ask(seconds, **request)
    warm = engine.ask(seconds, **request, forced=test["valid"]) if cold["ok"] else cold
    if not warm["ok"]:
        raise Failed("walk: " + warm["error"])
    walk = Walk(test["valid"], cold["complete"], len(test["tokens"]), cold[clock], warm[clock])
    if test["valid"] and walk.accepted:
        walk.forced, walk.strange = jumped(test["tokens"], warm["forced"])
    return walk


def attempt(engine, item, clock, limits):
    """A Trial, whatever happens. `clock`: cpu_micros or micros."""
    try:
        reply = engine.ask(limits["compile_seconds"], op="compile", kind=item["kind"], spec=item["spec"])
    except Failed as reason:
        return Trial(False, failure=str(reason))
    trial = Trial(reply["ok"], error=reply.get("error", ""), compile_ms=reply.get(clock, 0.0) / 1e3)
    if not trial.compiled:
        return trial
    try:
        for test in item["tests"]:
            trial.walks.append(walk_of(engine, reply["id"], test, clock, limits["walk_seconds"]))
        engine.ask(limits["walk_seconds"], op="free", id=reply["id"])
    except Failed as reason:
        trial.failure = str(reason)
    return trial
