"""Anthropic's dialect: /v1/messages, streamed and whole, tools, counts and errors."""
import json
import unittest

from harness import Server
from test_tools import SHOWS, TOOLS, check_call

try:
    import anthropic
except ImportError:
    anthropic = None

CUSTOM = [{"name": t["function"]["name"], "input_schema": t["function"]["parameters"]} for t in TOOLS]
USER = [{"role": "user", "content": "What is the weather?"}]


def named_events(reply):
    events = []
    for block in reply.body.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in lines:
            data = json.loads(lines["data"])
            assert data["type"] == lines["event"], lines
            events.append(data)
    return events


def folded(events):
    """The message that a stream adds up to; its order is checked on the way."""
    message, open_block, partial = None, None, ""
    for event in events:
        kind = event["type"]
        if kind == "message_start":
            assert message is None
            message = event["message"]
        elif kind == "content_block_start":
            assert open_block is None and event["index"] == len(message["content"])
            message["content"].append(event["content_block"])
            open_block, partial = event["index"], ""
        elif kind == "content_block_delta":
            assert event["index"] == open_block
            block, delta = message["content"][open_block], event["delta"]
            if delta["type"] == "input_json_delta":
                partial += delta["partial_json"]
            else:
                name = delta["type"].removesuffix("_delta")
                block[name] += delta[name]
        elif kind == "content_block_stop":
            assert event["index"] == open_block
            if message["content"][open_block]["type"] == "tool_use":
                message["content"][open_block]["input"] = json.loads(partial)
            open_block = None
        elif kind == "message_delta":
            assert open_block is None
            message.update(event["delta"])
            message["usage"].update(event["usage"])
        else:
            assert kind == "message_stop", kind
    assert events[-1]["type"] == "message_stop"
    return message


def without_ids(message):
    message = json.loads(json.dumps(message))
    message.pop("id")
    for block in message["content"]:
        block.pop("id", None)
    for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation"):  # the second time the cache has the prompt
        message["usage"].pop(name)
    return message


class Messages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--chat-template", SHOWS, "--api-key", "k")

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()

    def ask(self, path="/v1/messages", **more):
        body = {"model": "default", "messages": USER, "max_tokens": 30, "temperature": 0, **more}
        return self.server.post(path, body, headers={"x-api-key": "k", "anthropic-version": "2023-06-01"})

    def test_a_message_streams_as_it_is_told_whole(self):
        for more in ({}, {"max_tokens": 400, "tools": CUSTOM, "tool_choice": {"type": "any"}},
                     {"stop_sequences": ["a", "e"]}, {"system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]}):
            whole = self.ask(**more)
            self.assertEqual(whole.status, 200, whole.body)
            streamed = folded(named_events(self.ask(stream=True, **more)))
            self.assertEqual(without_ids(streamed), without_ids(whole.json))
            usage = whole.json["usage"]
            counted = self.ask("/v1/messages/count_tokens", **more).json["input_tokens"]
            parts = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            self.assertEqual(sum(usage[part] for part in parts), counted)

    def test_marked_prefixes_are_pinned_and_told_in_usage(self):
        mark = {"cache_control": {"type": "ephemeral"}}
        system = [{"type": "text", "text": "A long rule. " * 12, "cache_control": {"type": "ephemeral", "ttl": "1h"}},
                  {"type": "text", "text": "A short one."}]
        words = [{"type": "text", "text": "Read this: " + "word " * 30, **mark}, {"type": "text", "text": "Now answer."}]
        more = {"system": system, "messages": [{"role": "user", "content": words}]}
        headers = {"x-api-key": "k"}
        pins = lambda: {pin["id"]: pin for pin in self.server.get("/v1/cache/pins", headers=headers).json["data"]}
        before = pins()
        usage = self.ask(**more).json["usage"]
        self.assertGreater(usage["cache_creation_input_tokens"], usage["input_tokens"])
        self.assertEqual(usage["cache_creation"], {"ephemeral_5m_input_tokens": usage["cache_creation_input_tokens"],
                                                   "ephemeral_1h_input_tokens": 0})
        made = [pin for id, pin in pins().items() if id not in before]
        self.assertTrue(all(pin["id"].startswith("cache-control-") for pin in made))
        lengths = sorted((pin["tokens"], round(pin["seconds_left"])) for pin in made)
        self.assertEqual(len(lengths), 2)
        self.assertLess(lengths[0][0], lengths[1][0])
        self.assertTrue(3500 < lengths[0][1] <= 3600 and 250 < lengths[1][1] <= 300, lengths)
        self.assertEqual(lengths[1][0], usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"])
        again = self.ask(**more).json["usage"]
        self.assertEqual(again["cache_creation_input_tokens"], 0)
        self.assertGreaterEqual(again["cache_read_input_tokens"], lengths[1][0])
        self.assertEqual(len(pins()), len(before) + 2)  # renewed
        for bad, word in (({"type": "long"}, "type"), ({"type": "ephemeral", "ttl": "2h"}, "ttl")):
            reply = self.ask(messages=[{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": bad}]}])
            self.assertEqual(reply.status, 400)
            self.assertIn("messages[0].content[0].cache_control." + word, reply.json["error"]["message"])
        five = [{"type": "text", "text": "a", **mark}] * 5
        self.assertEqual(self.ask(messages=[{"role": "user", "content": five}]).status, 400)

    def test_a_stop_sequence_is_named(self):
        text = self.ask().json["content"][0]["text"]
        stop = text[3:5]
        message = self.ask(stop_sequences=[stop]).json
        self.assertEqual((message["stop_reason"], message["stop_sequence"]), ("stop_sequence", stop))
        self.assertEqual(self.ask(max_tokens=2).json["stop_reason"], "max_tokens")

    def test_tools_are_called_and_their_results_go_back(self):
        messages = list(USER)
        for turn in range(3):
            message = self.ask(messages=messages, max_tokens=300, tools=CUSTOM,
                               tool_choice={"type": "any", "disable_parallel_tool_use": True}).json
            self.assertEqual(message["stop_reason"], "tool_use")
            block, = message["content"]
            check_call(self, block["name"], json.dumps(block["input"]))
            messages += [{"role": "assistant", "content": message["content"]}, {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": block["id"], "content": [{"type": "text", "text": "sun"}]},
                {"type": "text", "text": "And tomorrow?"}]}]
        usage = self.ask(messages=messages, tools=CUSTOM).json["usage"]
        self.assertGreater(usage["cache_read_input_tokens"], usage["input_tokens"])
        named = self.ask(max_tokens=300, tools=CUSTOM, tool_choice={"type": "tool", "name": "weather"}).json
        self.assertEqual(named["content"][0]["name"], "weather")

    def test_refusals_have_anthropics_shape(self):
        picture = [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}]}]
        for more, word in (({"max_tokens": None}, "max_tokens"), ({"messages": picture}, "messages[0].content[0].type"),
                           ({"messages": []}, "messages"), ({"tools": [{"type": "web_search_20250305", "name": "w"}]}, "tools[0].type"),
                           ({"tool_choice": {"type": "must"}, "tools": CUSTOM}, "tool_choice.type")):
            reply = self.ask(**more)
            self.assertEqual((reply.status, reply.json["type"], reply.json["error"]["type"]), (400, "error", "invalid_request_error"))
            self.assertIn(word.split(".")[0], reply.json["error"]["message"])
        self.assertEqual(self.ask(model="other").json["error"]["type"], "not_found_error")
        reply = self.server.post("/v1/messages", {"messages": USER, "max_tokens": 1})
        self.assertEqual((reply.status, reply.json["error"]["type"]), (401, "authentication_error"))

    @unittest.skipIf(anthropic is None, "the anthropic client is not installed")
    def test_anthropics_client_streams_and_calls_tools(self):
        client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{self.server.port}", api_key="k", max_retries=0)
        asked = {"model": "default", "max_tokens": 300, "messages": USER, "tools": CUSTOM, "tool_choice": {"type": "any"},
                 "extra_body": {"temperature": 0}}
        whole = client.messages.create(**asked)
        self.assertEqual(whole.stop_reason, "tool_use")
        with client.messages.stream(**asked) as stream:
            streamed = stream.get_final_message()
        self.assertEqual([(b.name, b.input) for b in streamed.content], [(b.name, b.input) for b in whole.content])
        count = client.messages.count_tokens(model="default", messages=USER, tools=CUSTOM).input_tokens
        self.assertEqual(count, whole.usage.input_tokens + whole.usage.cache_read_input_tokens)
        with self.assertRaises(anthropic.BadRequestError):
            client.messages.create(**{**asked, "tools": [{"type": "web_search_20250305", "name": "web_search"}]})


if __name__ == "__main__":
    unittest.main()
