"""Routers before two replicas: the share of prompt tokens that comes out of the cache is that of one server, and what
they pass on is what the servers say, whole and streamed. sglang-router 0.3.2 and its successor, smg 1.13."""
import concurrent.futures
import importlib.util
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import openai

from served import ASK, SHORT, TOOLS, Reply, Server, check_call

MODEL_NAME = "house-model"
PROMPTS, ASKED_OF_EACH = 6, 8


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def post(url, body, timeout=60):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        return Reply(reply.status, reply.headers, reply.read())


def jobs(seed):
    """48 requests of 6 prompts, shuffled; each prompt goes on in 8 ways."""
    draw = random.Random(seed)
    words = "alpha beta gamma delta stone river mountain cloud paper window signal engine branch market winter summer".split()
    begins = [f"Case {i} {draw.random()}: " + " ".join(draw.choice(words) for _ in range(150)) for i in range(PROMPTS)]
    asked = [f"{begin} Question {i}:" for i in range(ASKED_OF_EACH) for begin in begins]
    draw.shuffle(asked)
    return asked


def cached_share(url, stream, seed=1):
    """Of all prompt tokens, when four clients ask."""
    def ask(text):
        body = {"model": MODEL_NAME, "text": text, "sampling_params": {"max_new_tokens": 8, "temperature": 0}, "stream": stream}
        reply = post(url + "/generate", body)
        said = reply.events[-2] if stream else reply.json
        return said["meta_info"]["prompt_tokens"], said["meta_info"]["cached_tokens"], said["text"]

    with concurrent.futures.ThreadPoolExecutor(4) as many:
        told = list(many.map(ask, jobs(seed)))
    return sum(cached for _, cached, _ in told) / sum(prompt for prompt, _, _ in told), [text for *_, text in told]


def replica():
    return Server("--served-model-name", MODEL_NAME, "--chat-template", SHORT, "--context-length", "4096", "--allow-longer-context")


class Router:
    """A router before two replicas; use as a context manager. `module` is what Python runs."""

    def __init__(self, *module):
        self.replicas = [replica(), replica()]
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        workers = [f"http://127.0.0.1:{server.port}" for server in self.replicas]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, "-m", *module, "--host", "127.0.0.1", "--port", str(self.port), "--prometheus-port", str(free_port()),
             "--prometheus-host", "127.0.0.1", "--policy", "cache_aware", "--worker-urls", *workers],
            stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL, env={**os.environ, "HF_HUB_OFFLINE": "1"})

    def __enter__(self):
        end, asked = time.monotonic() + 60, 0
        while time.monotonic() < end and self.process.poll() is None:
            try:
                asked += 1
                post(self.url + "/generate", {"model": MODEL_NAME, "text": f"{asked} is new", "sampling_params": {"max_new_tokens": 1}})
                if all(server.metric("sglang:num_requests_total") > 0 for server in self.replicas):  # it knows both
                    return self
            except OSError:  # not listening, or without workers yet
                time.sleep(0.1)
        self.__exit__()
        raise AssertionError("the router did not become ready:\n" + self.text)

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.seek(0)
        self.text = self.log.read().decode(errors="replace")[-4000:]
        self.log.close()
        for server in self.replicas:
            server.kill()


class SglangRouter(unittest.TestCase):
    MODULE = ("sglang_router.launch_router",)
    PACKAGE = "sglang_router"

    @classmethod
    def setUpClass(cls):
        if importlib.util.find_spec(cls.PACKAGE) is None:
            raise unittest.SkipTest(f"{cls.PACKAGE} is not installed")

    def test_two_replicas_share_as_much_as_one_server(self):
        for stream in (False, True):
            with replica() as server:
                alone, said_alone = cached_share(f"http://127.0.0.1:{server.port}", stream)
            with Router(*self.MODULE) as router:
                behind, said_behind = cached_share(router.url, stream)
                served = [server.metric("sglang:num_requests_total") for server in router.replicas]
            print(f"{self.PACKAGE}, {'streamed' if stream else 'whole'}: {behind:.1%} of prompt tokens cached behind it, "
                  f"{alone:.1%} by one server; requests {served}")
            self.assertAlmostEqual(behind, alone, delta=0.01)
            self.assertEqual(said_behind, said_alone)
            self.assertGreater(min(served), 1, "one replica had nothing to do")

    def test_openais_client_speaks_through_it(self):
        with Router(*self.MODULE) as router, openai.OpenAI(base_url=router.url + "/v1", api_key="none", max_retries=0) as client:
            self.assertIn(MODEL_NAME, [model.id for model in client.models.list()])
            asked = {"model": MODEL_NAME, "messages": [{"role": "user", "content": ASK}], "temperature": 0, "max_tokens": 30}
            whole = client.chat.completions.create(**asked).choices[0].message.content
            chunks = client.chat.completions.create(stream=True, **asked)
            self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), whole)
            called = client.chat.completions.create(**{**asked, "max_tokens": 300}, tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
            call, = called.choices[0].message.tool_calls
            check_call(self, call.function.name, call.function.arguments)
            with self.assertRaises(openai.APIStatusError) as refused:
                client.chat.completions.create(**{**asked, "temperature": -1})
            self.assertEqual(refused.exception.status_code, 400)


class Smg(SglangRouter):
    MODULE = ("smg", "launch")
    PACKAGE = "smg"


if __name__ == "__main__":
    unittest.main()
