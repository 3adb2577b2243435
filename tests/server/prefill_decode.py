"""Servers that compute prompts for others, and a stand-in for the router that sends each request to one of both kinds."""
import json
import random
import socket
import threading

from harness import Server

EXACT = ("--activations", "f32", "--no-cache-disk")
FLAGS = (*EXACT, "--context-length", "4096", "--allow-longer-context", "--max-total-tokens", "16384")  # of the golden models


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def prefill(*flags, port=None, context=True, **more):
    """A server that computes prompts; `.bootstrap` is where it is asked for them. context: of our length, not the model's."""
    port = port or free_port()
    server = Server(*(FLAGS if context else EXACT), "--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", str(port), *flags, **more)
    server.bootstrap = port
    return server


def decode(*flags, context=True, **more):
    return Server(*(FLAGS if context else EXACT), "--disaggregation-mode", "decode", *flags, **more)


def handed(body, bootstrap, count=None, host="127.0.0.1"):
    """The body as sglang-router changes it: one value of each, or lists of `count`."""
    room = random.randrange(1 << 63)
    if count is None:
        return {**body, "bootstrap_host": host, "bootstrap_port": bootstrap, "bootstrap_room": room}
    return {**body, "bootstrap_host": [host] * count, "bootstrap_port": [bootstrap] * count, "bootstrap_room": [room + i for i in range(count)]}


class Pair:
    """One of each kind; requests go to both, as under a router, and the answers are the second's."""

    def __init__(self, first, second, bootstrap=None):
        self.first, self.second = first, second
        self.bootstrap = bootstrap or first.bootstrap

    def post(self, path, body, count=None):
        both = handed(body, self.bootstrap, count)
        first = threading.Thread(target=self._first, args=(path, both))
        first.start()
        reply = self.second.post(path, both)
        first.join()
        return reply

    def _first(self, path, body):
        try:
            self.prompt_reply = self.first.post(path, body)
        except OSError:  # it was killed
            self.prompt_reply = None

    def generate(self, **body):
        reply = self.post("/generate", body)
        assert reply.status == 200, reply.body
        return reply.json


def metrics(server, *names):
    return [server.metric(f"espalier_peers_{name}") for name in names]


def whole_blocks(tokens):
    """Of a prompt, that a cache may give."""
    return (tokens - 1) // 16 * 16


def events(reply):
    return [json.loads(line[6:]) for line in reply.body.decode().split("\n") if line.startswith("data: {")]
