"""Thinking through the server: told apart from the answer, and left alone by constraints (--reasoning-parser)."""
import json
import pathlib
import re
import shutil
import tempfile
import unittest

from harness import MODEL, Server
from test_tools import SHOWS, TOOLS, check_call

BEGIN, END = 6, 5  # the ids of the marks below
CITY = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"], "additionalProperties": False}
MESSAGES = [{"role": "user", "content": "Where?"}]
THINKS, DOES_NOT = {str(BEGIN): 20, str(END): 20}, {str(BEGIN): -90}


def thinking_model(folder):
    """The golden model with two of its special tokens as marks of thinking."""
    for file in MODEL.iterdir():
        shutil.copy(file, folder)
    path = pathlib.Path(folder, "tokenizer.json")
    words = json.loads(path.read_text().replace("<|image|>", "<think>").replace("<|system|>", "</think>"))
    for token in words["added_tokens"]:
        token["special"] = token["id"] not in (BEGIN, END)
    path.write_text(json.dumps(words))
    return folder


class Reasoning(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server("--reasoning-parser", "qwen3", model=thinking_model(cls.folder.name))

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        cls.folder.cleanup()

    def ask(self, bias, seed=1, **more):
        body = {"messages": MESSAGES, "temperature": 1, "seed": seed, "max_tokens": 200, "logit_bias": bias,
                "response_format": {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY, "strict": True}}}
        reply = self.server.post("/v1/chat/completions", {**body, **more})
        self.assertEqual(reply.status, 200, reply.body)
        return reply

    def test_a_constraint_begins_behind_the_thinking_which_is_told_apart(self):
        for seed in range(1, 5):
            reply = self.ask(THINKS, seed).json
            message = reply["choices"][0]["message"]
            self.assertIn(json.loads(message["content"])["city"], ["Rome", "Oslo"])
            self.assertGreater(reply["usage"]["completion_tokens_details"]["reasoning_tokens"], 0)
            self.assertNotIn("</think>", message["reasoning_content"] or "")

    def test_a_constraint_holds_from_the_start_where_the_model_does_not_think(self):
        message = self.ask(DOES_NOT).json["choices"][0]["message"]
        self.assertIn(json.loads(message["content"])["city"], ["Rome", "Oslo"])
        self.assertIsNone(message["reasoning_content"])

    def test_a_stream_says_what_the_whole_reply_says(self):
        for seed in range(1, 4):
            whole = self.ask(THINKS, seed).json["choices"][0]["message"]
            for as_it_comes in (True, False):
                events = self.ask(THINKS, seed, stream=True, stream_reasoning=as_it_comes).events
                deltas = [e["choices"][0]["delta"] for e in events if e != "[DONE]" and e["choices"]]
                thought = [d["reasoning_content"] for d in deltas if d.get("reasoning_content")]
                self.assertEqual("".join(d.get("content") or "" for d in deltas), whole["content"])
                self.assertEqual("".join(thought), whole["reasoning_content"] or "")
                if not as_it_comes:
                    self.assertLessEqual(len(thought), 1)

    def closed_behind(self, reply):
        """Tokens between the marks, of a reply whose thinking the model itself never ends."""
        ids = reply.json["choices"][0]["token_ids"]
        self.assertEqual(ids[0], BEGIN)
        return ids.index(END) - 1

    def test_thinking_is_closed_behind_its_budget(self):
        endless = {str(BEGIN): 20, str(END): -90}
        says = [lambda n: {"max_reasoning_tokens": n}, lambda n: {"thinking_budget": n}, lambda n: {"thinking_token_budget": n},
                lambda n: {"max_thinking_tokens": n}, lambda n: {"thinking": {"type": "enabled", "budget_tokens": n}},
                lambda n: {"reasoning": {"max_tokens": n}}, lambda n: {"custom_params": {"thinking_budget": n}}]
        for i, body in enumerate(says):
            for budget in (0, 1, 3 + i):
                reply = self.ask(endless, i + 1, return_token_ids=True, **body(budget))
                self.assertEqual(self.closed_behind(reply), budget, body(budget))
                message = reply.json["choices"][0]["message"]
                self.assertIn(json.loads(message["content"])["city"], ["Rome", "Oslo"])
        free = self.ask(endless, return_token_ids=True, response_format={"type": "text"}, max_reasoning_tokens=7, max_tokens=40)
        self.assertEqual(self.closed_behind(free), 7)
        self.assertEqual(self.closed_behind(self.ask(endless, return_token_ids=True, reasoning_effort="none")), 0)
        self.assertEqual(self.closed_behind(self.ask(endless, return_token_ids=True, thinking={"type": "disabled"})), 0)
        unbounded = self.ask(endless, return_token_ids=True, max_reasoning_tokens=-1, max_tokens=50).json["choices"][0]
        self.assertNotIn(END, unbounded["token_ids"])

    def test_a_budget_of_thinking_changes_nothing_else(self):
        whole = self.ask(THINKS, 2, max_reasoning_tokens=1000).json["choices"][0]["message"]
        self.assertEqual(whole, self.ask(THINKS, 2).json["choices"][0]["message"])
        for body, field in (({"max_reasoning_tokens": -2}, "max_reasoning_tokens"), ({"thinking": {"type": "much"}}, "thinking.type"),
                            ({"thinking": {"type": "enabled", "budget_tokens": "9"}}, "thinking.budget_tokens"),
                            ({"reasoning": {"effort": "hard"}}, "reasoning.effort"), ({"verbosity": "loud"}, "verbosity")):
            refused = self.server.post("/v1/chat/completions", {"messages": MESSAGES, **body})
            self.assertEqual((refused.status, refused.json["error"]["param"]), (400, field))

    def test_the_text_is_left_alone_when_asked(self):
        message = self.ask(THINKS, separate_reasoning=False).json["choices"][0]["message"]
        self.assertRegex(message["content"], re.compile(r'\A<think>.*</think>\{"city":"(Rome|Oslo)"\}\Z', re.S))
        self.assertNotIn("reasoning_content", message)

    def test_the_native_route_leaves_thinking_to_a_request_that_says_so(self):
        bias = {str(END): 20}
        sampling = {"temperature": 1, "sampling_seed": 3, "max_new_tokens": 200, "json_schema": CITY, "logit_bias": bias}
        inside = self.server.generate(text="Where? <think>", sampling_params=sampling, require_reasoning=True)["text"]
        self.assertRegex(inside, re.compile(r'.*</think>\{"city":"(Rome|Oslo)"\}\Z', re.S))
        over = self.server.generate(text="Where? <think></think>", sampling_params=sampling, require_reasoning=True)["text"]
        self.assertIn(json.loads(over)["city"], ["Rome", "Oslo"])
        plain = self.server.generate(text="Where? <think>", sampling_params=sampling)["text"]
        self.assertIn(json.loads(plain)["city"], ["Rome", "Oslo"])

    def test_the_model_tells_its_parser(self):
        self.assertEqual(self.server.get("/get_model_info").json["reasoning_parser"], "qwen3")


class Demanded(unittest.TestCase):
    """What a request demands comes, though the model would rather end within its thinking."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server("--reasoning-parser", "qwen3", "--chat-template", SHOWS, model=thinking_model(cls.folder.name))

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        cls.folder.cleanup()

    def ask(self, seed, **more):
        body = {"messages": MESSAGES, "temperature": 1, "seed": seed, "max_tokens": 400,
                "logit_bias": {str(BEGIN): 12, str(END): 11, "2": 12.5}, **more}
        reply = self.server.post("/v1/chat/completions", body)
        self.assertEqual(reply.status, 200, reply.body)
        choice = reply.json["choices"][0]
        self.assertGreater(reply.json["usage"]["completion_tokens_details"]["reasoning_tokens"], 0)
        return choice

    def test_a_call_that_must_come_comes_behind_the_thinking(self):
        for seed in range(1, 6):
            choice = self.ask(seed, tools=TOOLS, tool_choice="required")
            self.assertEqual(choice["finish_reason"], "tool_calls", choice)
            for call in choice["message"]["tool_calls"]:
                check_call(self, call["function"]["name"], call["function"]["arguments"])

    def test_the_form_that_must_be_comes_behind_the_thinking(self):
        form = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY, "strict": True}}
        for seed in range(1, 6):
            choice = self.ask(seed, response_format=form)
            self.assertEqual(choice["finish_reason"], "stop", choice)
            self.assertIn(json.loads(choice["message"]["content"])["city"], ["Rome", "Oslo"])


class WithoutAParser(unittest.TestCase):
    def test_a_request_that_needs_one_is_refused_and_an_unknown_one_stops_the_start(self):
        with Server() as server:
            reply = server.post("/generate", {"text": "a", "require_reasoning": True, "sampling_params": {"regex": "a"}})
            self.assertEqual(reply.status, 400)
            self.assertIn("--reasoning-parser", reply.body.decode())
        server = Server("--reasoning-parser", "oracle", wait=False)
        try:
            self.assertEqual(server.process.wait(30), 2)
            self.assertIn("qwen3", server.text())
        finally:
            server.kill()


if __name__ == "__main__":
    unittest.main()
