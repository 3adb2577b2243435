"""Two servers that compute prompts and two that compute outputs, under --pd-disaggregation of sglang-router and its successor: every answer is that of one
server, also when a server of prompts is killed in the middle."""
import concurrent.futures
import importlib.util
import json
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

import openai

from served import NAME as MODEL_NAME
from served import SHORT, Reply, Server
from prefill_decode import FLAGS, decode, free_port, metrics, prefill, whole_blocks  # beside served's server

MORE = ("--served-model-name", MODEL_NAME, "--chat-template", SHORT)


def post(url, body, timeout=120):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            return Reply(reply.status, reply.headers, reply.read())
    except urllib.error.HTTPError as refused:
        return Reply(refused.code, refused.headers, refused.read())


class Fleet:
    """Two and two under a router; use as a context manager."""

    def __init__(self, *flags, module=("sglang_router.launch_router",)):
        self.firsts = [prefill(*MORE, *flags) for _ in range(2)]
        self.seconds = [decode(*MORE) for _ in range(2)]
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        words = [sys.executable, "-m", *module, "--pd-disaggregation", "--host", "127.0.0.1", "--port", str(self.port),
                 "--prometheus-port", str(free_port()), "--prometheus-host", "127.0.0.1", "--policy", "round_robin", "--health-check-interval-secs", "1"]
        for server in self.firsts:
            words += ["--prefill", f"http://127.0.0.1:{server.port}", str(server.bootstrap)]
        for server in self.seconds:
            words += ["--decode", f"http://127.0.0.1:{server.port}"]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL, env={**os.environ, "HF_HUB_OFFLINE": "1"})

    def __enter__(self):
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            try:
                reply = post(self.url + "/generate", {"model": MODEL_NAME, "text": f"{end} is new", "sampling_params": {"max_new_tokens": 1}})
                if reply.status == 200 and all(server.metric("sglang:num_requests_total") > 0 for server in self.firsts + self.seconds):
                    return self
            except OSError:  # not listening, or without workers yet
                time.sleep(0.1)
        self.__exit__()
        raise AssertionError("the router did not become ready:\n" + self.text)

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.seek(0)
        self.text = self.log.read().decode(errors="replace")[-4000:]
        self.log.close()
        for server in self.firsts + self.seconds:
            server.kill()

    def sum(self, servers, name):
        return sum(metrics(server, name)[0] for server in servers)


def texts(count, words=90):
    return [f"Case {i}: " + " ".join(f"word{(i * 7 + j * (1 + i % 3)) % 90}" for j in range(words)) for i in range(count)]


def asked(text, **more):
    return {"model": MODEL_NAME, "text": text, "sampling_params": {"max_new_tokens": 12, "temperature": 0, "ignore_eos": True}, **more}


def as_float(number):
    """Of 32 bits, as it was computed: the router reads and writes numbers of the answers that it joins, and changes their last digits."""
    return None if number is None else struct.pack("f", number)


def said(reply):
    meta = reply["meta_info"]
    lists = [[(as_float(entry[0]), *entry[1:]) for entry in meta.get(name) or []] for name in ("output_token_logprobs", "input_token_logprobs")]
    return reply["text"], reply.get("output_ids"), *lists


def all_of(url, bodies, clients=6):
    with concurrent.futures.ThreadPoolExecutor(clients) as many:
        return list(many.map(lambda body: post(url + "/generate", body), bodies))


class UnderSglangRouter(unittest.TestCase):
    MODULE = ("sglang_router.launch_router",)
    PACKAGE = "sglang_router"

    @classmethod
    def setUpClass(cls):
        if importlib.util.find_spec(cls.PACKAGE) is None:
            raise unittest.SkipTest(f"{cls.PACKAGE} is not installed")
        cls.alone = Server(*FLAGS, *MORE)
        cls.addClassCleanup(cls.alone.kill)
        cls.alone_url = f"http://127.0.0.1:{cls.alone.port}"

    def test_answers_are_those_of_one_server(self):
        bodies = [asked(text) for text in texts(24)]
        bodies += [asked(text, return_logprob=True, logprob_start_len=0) for text in texts(6, 40)]
        bodies += [{**asked(text), "sampling_params": {"temperature": 0.8, "sampling_seed": 3, "max_new_tokens": 10}} for text in texts(6, 50)]
        expected = [said(reply.json) for reply in all_of(self.alone_url, bodies)]
        with Fleet("--chunked-prefill-size", "64", module=self.MODULE) as fleet:
            before = fleet.sum(fleet.seconds, "pulled_tokens_total")
            replies = all_of(fleet.url, bodies)
            self.assertEqual({reply.status for reply in replies}, {200})
            self.assertEqual([said(reply.json) for reply in replies], expected)
            self.assertEqual(fleet.sum(fleet.seconds, "rooms_failed_total"), 0)
            first_of_each = {body["text"]: whole_blocks(reply.json["meta_info"]["prompt_tokens"]) for body, reply in zip(bodies, replies)}
            self.assertGreater(fleet.sum(fleet.seconds, "pulled_tokens_total") - before, 0.5 * sum(first_of_each.values()))
            for server in fleet.firsts:
                self.assertGreater(server.metric("espalier_peers_given_tokens_total"), 0, "one server of prompts had nothing to do")

    def test_streams_chats_and_openais_client_go_through_it(self):
        with Fleet(module=self.MODULE) as fleet, openai.OpenAI(base_url=fleet.url + "/v1", api_key="none", max_retries=0) as client, \
                openai.OpenAI(base_url=self.alone_url + "/v1", api_key="none", max_retries=0) as plain:
            body = {"model": MODEL_NAME, "messages": [{"role": "user", "content": texts(1)[0]}], "temperature": 0, "max_tokens": 20}
            whole, wanted = (each.chat.completions.create(**body).choices[0].message.content for each in (client, plain))
            self.assertEqual(whole, wanted)
            chunks = client.chat.completions.create(stream=True, **body)
            self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), wanted)
            two = {**body, "n": 2, "temperature": 0.9, "seed": 7}
            self.assertEqual(*([choice.message.content for choice in each.chat.completions.create(**two).choices] for each in (client, plain)))
            prompt = {"model": MODEL_NAME, "prompt": texts(2), "max_tokens": 9, "temperature": 0}
            self.assertEqual(*([choice.text for choice in each.completions.create(**prompt).choices] for each in (client, plain)))
            self.assertEqual(fleet.sum(fleet.seconds, "rooms_failed_total"), 0)
            with self.assertRaises(openai.APIStatusError) as refused:
                client.chat.completions.create(**{**body, "temperature": -1})
            self.assertEqual(refused.exception.status_code, 400)

    def test_a_server_of_prompts_that_is_killed_costs_no_request(self):
        bodies = [asked(text) for text in texts(30, 400)]
        expected = [said(reply.json) for reply in all_of(self.alone_url, bodies)]
        with Fleet("--chunked-prefill-size", "16", module=self.MODULE) as fleet:
            replies = []
            asking = threading.Thread(target=lambda: replies.extend(all_of(fleet.url, bodies)))
            asking.start()
            end = time.monotonic() + 60
            while fleet.firsts[0].metric("espalier_peers_given_tokens_total") < 500 and time.monotonic() < end:
                pass
            fleet.firsts[0].process.kill()
            asking.join()
            self.assertEqual({reply.status for reply in replies}, {200})
            self.assertEqual([said(reply.json) for reply in replies], expected)
            self.assertGreater(fleet.sum(fleet.seconds, "rooms_failed_total"), 0)


class UnderSmg(UnderSglangRouter):
    MODULE = ("smg", "launch")
    PACKAGE = "smg"


if __name__ == "__main__":
    unittest.main()
