"""Prefill, decoding and batched decoding inside each contender's own process."""
import dataclasses

from peers.rounds import play
from peers.runner import Failed


@dataclasses.dataclass(frozen=True)
class Load:
    section: str
    name: str
    prompt: int  # tokens
    sequences: int
    generated: int  # tokens of each
    bursts: int = 2  # in one process; the best counts, for all alike


LOADS = (
    Load("prefill", "prefill 512", 512, 1, 2),
    Load("prefill", "prefill 2048", 2048, 1, 2),
    Load("decode", "decode at 512", 512, 1, 64),
    Load("batch", "decode 32 at 512", 512, 32, 64, bursts=1),  # 2048 tokens are long enough, and 32 prompts take their time
)
FIGURES = ("tok/s",)


def rounds_of(contenders, model, load, repeat):
    for contender in contenders:
        try:
            getattr(contender, "prepare", lambda *_: None)(model, load)
        except Failed:
            pass  # its first turn fails in the same way, and is reported there
    return play(contenders, repeat, lambda contender: contender.in_process(model, load))
