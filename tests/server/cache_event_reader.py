"""A reader of cache events, as routers have one: with msgspec, by the types that vLLM and SGLang publish.

Where msgspec or pyzmq is missing, `msgspec` is None, and there is no Subscriber to make.
"""
import json
import socket
import time
from typing import Any

try:
    import msgspec
    import zmq
except ImportError:
    msgspec = zmq = None

BLOCK = 16


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if msgspec is not None:
    class EventBatch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
        ts: float
        events: list[Any]

    class KVCacheEvent(msgspec.Struct, array_like=True, omit_defaults=True, gc=False, tag=True):
        pass

    class BlockStored(KVCacheEvent):
        block_hashes: list[int]
        parent_block_hash: int | None
        token_ids: list[int]
        block_size: int
        lora_id: int | None
        medium: str | None
        lora_name: str | None

    class BlockRemoved(KVCacheEvent):
        block_hashes: list[int]
        medium: str | None

    class AllBlocksCleared(KVCacheEvent):
        pass

    class KVEventBatch(EventBatch):
        events: list[BlockStored | BlockRemoved | AllBlocksCleared]
        data_parallel_rank: int | None = None


class Subscriber:
    """Keeps what is held by medium, as a router's index does."""

    def __init__(self, port, topic=""):
        self.socket = zmq.Context.instance().socket(zmq.SUB)
        self.socket.connect(f"tcp://127.0.0.1:{port}")
        self.socket.setsockopt_string(zmq.SUBSCRIBE, topic)
        self.topic, self.numbers, self.held, self.tokens, self.adapters = topic, [], {}, {}, []
        self.behind = {}  # (block before or None, the tokens of a block) -> that block
        self.decoder = msgspec.msgpack.Decoder(type=KVEventBatch)

    def read(self, seconds=2.0):
        while self.socket.poll(int(1000 * seconds)):
            topic, number, batch = self.socket.recv_multipart()
            assert topic.decode() == self.topic
            self.numbers.append(int.from_bytes(number, "big"))
            self.apply(self.decoder.decode(batch))
            seconds = 0.3

    def apply(self, batch):
        assert abs(batch.ts - time.time()) < 600 and batch.data_parallel_rank == 0
        for event in batch.events:
            if isinstance(event, AllBlocksCleared):
                self.held.clear()
                continue
            held = self.held.setdefault(event.medium, set())
            if isinstance(event, BlockRemoved):
                held -= set(event.block_hashes)
                continue
            self.adapters.append(event.lora_name)
            assert event.block_size == BLOCK and len(event.token_ids) == BLOCK * len(event.block_hashes)
            held |= set(event.block_hashes)
            before = event.parent_block_hash
            for i, block in enumerate(event.block_hashes):
                self.tokens[block] = event.token_ids[BLOCK * i:BLOCK * (i + 1)]
                self.behind[before, tuple(self.tokens[block])] = block
                before = block

    def prefix(self, tokens, medium="CPU"):
        """The blocks that are held of a text's beginning, as a router looks a prompt up: from the first one on. For
        readers of one name space: texts under different salts and adapters are not told apart."""
        found, before, held = [], None, self.held.get(medium, set())
        for begin in range(0, len(tokens) - BLOCK + 1, BLOCK):
            before = self.behind.get((before, tuple(tokens[begin:begin + BLOCK])))
            if before not in held:
                break
            found.append(before)
        return found

    def close(self):
        self.socket.close(0)


def config(port, replay=None, **more):
    values = {"publisher": "zmq", "endpoint": f"tcp://*:{port}", "topic": "kv@me@toy", **more}
    if replay:
        values["replay_endpoint"] = f"tcp://127.0.0.1:{replay}"
    return json.dumps(values)
