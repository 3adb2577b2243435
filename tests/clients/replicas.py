"""Replicas that tell what their caches hold, and a workload of prompts that share beginnings. Needs no client's package."""
import random

from served import NAME, SHORT, Server, eventually  # also puts the next one within reach
from cache_event_reader import BLOCK, Subscriber, config, free_port, msgspec  # noqa: F401

PROMPTS, ASKED_OF_EACH = 6, 8
FLAGS = {"served_model_name": NAME, "chat_template": SHORT, "context_length": 4096, "allow_longer_context": True}  # as Python's Runtime takes them
GREEDY = {"max_new_tokens": 8, "temperature": 0}


def jobs(seed):
    """48 requests of 6 prompts, shuffled; each prompt goes on in 8 ways."""
    draw = random.Random(seed)
    words = "alpha beta gamma delta stone river mountain cloud paper window signal engine branch market winter summer".split()
    begins = [f"Case {i} {draw.random()}: " + " ".join(draw.choice(words) for _ in range(150)) for i in range(PROMPTS)]
    asked = [f"{begin} Question {i}:" for i in range(ASKED_OF_EACH) for begin in begins]
    draw.shuffle(asked)
    return asked


def cached_share(replies):
    """Of all prompt tokens of /generate's replies."""
    told = [reply["meta_info"] for reply in replies]
    return sum(one["cached_tokens"] for one in told) / sum(one["prompt_tokens"] for one in told)


def replica(*flags):
    return Server(*(f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in FLAGS.items()), *flags)


class EventfulReplica:
    """A replica that publishes its cache events, and who reads them; use as a context manager."""

    def __init__(self):
        port = free_port()
        self.events = Subscriber(port)
        self.server = replica("--kv-events-config", config(port, topic=""))

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.events.close()
        self.server.__exit__(*failure)

    def begin(self):
        """Empties the cache, and waits until the reader is told so: then it misses nothing that comes."""
        def told():
            self.server.generate(text="a prompt of more than one block " * 3, sampling_params=GREEDY)
            self.server.post("/flush_cache", {})
            self.events.read(0.5)
            return bool(self.events.numbers) and not self.events.held
        eventually(told, True, 20, "an emptied cache was told")


def tokens_held(server, prompt, reply):
    """Of a prompt and its answer, those that stay in the cache: all but the last one, of which no keys were computed."""
    tokens = server.post("/tokenize", {"prompt": prompt, "add_special_tokens": True}).json["tokens"]
    assert len(tokens) == reply["meta_info"]["prompt_tokens"]
    return (tokens + reply["output_ids"])[:-1]


def blocks_told(events, tokens):
    """The whole blocks of these tokens, where the events tell that all are held, else None."""
    blocks = events.prefix(tokens)
    return blocks if len(blocks) == len(tokens) // BLOCK else None
