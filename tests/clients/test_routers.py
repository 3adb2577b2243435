"""Routers before two and three replicas: the share of prompt tokens that comes out of the cache is that of one server, what
they pass on is what the servers say, whole and streamed, and each replica's cache events tell what was sent there.
sglang-router 0.3.2 and its successor, smg 1.13."""
import concurrent.futures
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import openai

from replicas import GREEDY, EventfulReplica, blocks_told, cached_share, free_port, jobs, replica, tokens_held
from served import ASK, NAME, TOOLS, Reply, check_call


def post(url, body, timeout=60):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        return Reply(reply.status, reply.headers, reply.read())


class Answers:
    """What four clients were told: answers in the order of jobs(), and the cached share of all prompt tokens."""

    def __init__(self, url, stream, seed=1):
        self.prompts, self.url, self.stream = jobs(seed), url, stream
        with concurrent.futures.ThreadPoolExecutor(4) as many:
            self.said = list(many.map(self.ask, range(len(self.prompts))))
        self.texts = [said["text"] for said in self.said]
        self.cached_share = cached_share(self.said)

    def ask(self, i):
        body = {"model": NAME, "text": self.prompts[i], "rid": f"job-{i}-asked", "stream": self.stream, "sampling_params": GREEDY}
        reply = post(self.url + "/generate", body)
        return reply.events[-2] if self.stream else reply.json


class Router:
    """A router before replicas; use as a context manager. `module` is what Python runs."""

    def __init__(self, *module, replicas=None):
        self.replicas = replicas or [replica(), replica()]
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
                post(self.url + "/generate", {"model": NAME, "text": f"{asked} is new", "sampling_params": {"max_new_tokens": 1}})
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
                alone = Answers(f"http://127.0.0.1:{server.port}", stream)
            with Router(*self.MODULE) as router:
                behind = Answers(router.url, stream)
                served = [server.metric("sglang:num_requests_total") for server in router.replicas]
            print(f"{self.PACKAGE}, {'streamed' if stream else 'whole'}: {behind.cached_share:.1%} of prompt tokens cached behind it, "
                  f"{alone.cached_share:.1%} by one server; requests {served}")
            self.assertAlmostEqual(behind.cached_share, alone.cached_share, delta=0.01)
            self.assertEqual(behind.texts, alone.texts)
            self.assertGreater(min(served), 1, "one replica had nothing to do")

    def test_cache_events_of_three_replicas_tell_what_was_sent_to_each(self):
        with contextlib.ExitStack() as stack:
            one, *three = [stack.enter_context(EventfulReplica()) for _ in range(4)]
            router = stack.enter_context(Router(*self.MODULE, replicas=[each.server for each in three]))
            for each in (one, *three):
                each.begin()
            alone = Answers(f"http://127.0.0.1:{one.server.port}", False)
            behind = Answers(router.url, False)
            jobs_of = [[i for i in range(len(behind.prompts)) if f"job-{i}-asked" in each.server.text()] for each in three]
            held = [self.expect_events_of(each, behind, sent) for each, sent in zip(three, jobs_of)]
            self.assertEqual(sorted(sum(jobs_of, [])), list(range(len(behind.prompts))))
            self.assertTrue(all(jobs_of), "one replica had nothing to do")
            self.assertEqual(set.union(*held), self.expect_events_of(one, alone, range(len(alone.prompts))))
            twice = sum(map(len, held)) - len(set.union(*held))
            print(f"{self.PACKAGE}: {behind.cached_share:.1%} of prompt tokens cached behind it, {alone.cached_share:.1%} by one server; requests "
                  f"{[len(sent) for sent in jobs_of]}, blocks {[len(blocks) for blocks in held]}, of which {twice} on two replicas")
            self.assertAlmostEqual(behind.cached_share, alone.cached_share, delta=0.01)
            self.assertEqual(behind.texts, alone.texts)

    def expect_events_of(self, replica, answers, sent):
        """A replica's events name the whole blocks of what was sent there, and no others; they are returned."""
        replica.events.read(1)
        expected = set()
        for i in sent:
            blocks = blocks_told(replica.events, tokens_held(replica.server, answers.prompts[i], answers.said[i]))
            self.assertIsNotNone(blocks, f"job {i}")
            expected.update(blocks)
        self.assertEqual(replica.events.held["CPU"], expected)
        first, *rest = replica.events.numbers
        self.assertEqual(rest, list(range(first + 1, first + 1 + len(rest))), "batches were missed")
        return expected

    def test_openais_client_speaks_through_it(self):
        with Router(*self.MODULE) as router, openai.OpenAI(base_url=router.url + "/v1", api_key="none", max_retries=0) as client:
            self.assertIn(NAME, [model.id for model in client.models.list()])
            asked = {"model": NAME, "messages": [{"role": "user", "content": ASK}], "temperature": 0, "max_tokens": 30}
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
