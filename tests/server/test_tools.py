"""Tools through chat completions: calls that must come, that may come, and how they are told, streamed and whole."""
import json
import pathlib
import re
import shutil
import tempfile
import unittest

from harness import MODEL, Server

try:
    import openai
except ImportError:
    openai = None

TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "of a city", "strict": True, "parameters": {
        "type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["city", "days"], "additionalProperties": False}}},
    {"type": "function", "function": {"name": "stop_all", "parameters": {
        "type": "object", "properties": {"why": {"enum": ["a \"b\"\n", "\u00fc{}"]}}, "required": ["why"],
        "additionalProperties": False}}},
]
USER = [{"role": "user", "content": "What is the weather?"}]
SHOWS = ("{% for t in tools or [] %}{{ t.function.name }};{% endfor %}{% for m in messages %}[{{ m.role }}]{{ m.content }}"
         "{% for c in m.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": "
         "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}{% endfor %}[assistant]")
# Formats whose arguments are JSON, so that the model's own form can be enforced.
JSON_FORMATS = ("hermes", "llama3", "mistral", "deepseek_v3", "deepseek_v31", "kimi_k2", "internlm", "jamba", "granite",
                "granite-20b-fc", "phi4_mini_json", "xlam", "apertus", "nemotron_json", "longcat", "json")
OTHERS = ("qwen3_coder", "glm45", "pythonic", "gpt-oss", "minimax-m2")


def folded(events):
    """What a stream says of its only choice."""
    text, thinking, calls, reason = "", "", [], None
    for event in events:
        if event == "[DONE]" or not event["choices"]:
            continue
        choice = event["choices"][0]
        delta = choice["delta"]
        text += delta.get("content") or ""
        thinking += delta.get("reasoning_content") or ""
        for piece in delta.get("tool_calls") or []:
            if piece["index"] == len(calls):
                calls.append({"id": piece["id"], "name": piece["function"]["name"], "arguments": ""})
            else:
                assert "id" not in piece and "name" not in piece["function"], piece
            calls[piece["index"]]["arguments"] += piece["function"]["arguments"]
        reason = choice["finish_reason"] or reason
    return text, thinking, calls, reason


def check_call(test, name, arguments):
    arguments = json.loads(arguments)
    if name == "weather":
        test.assertEqual(set(arguments), {"city", "days"})
        test.assertIn(arguments["city"], ("Rome", "Oslo"))
        test.assertIn(arguments["days"], range(1, 10))
    else:
        test.assertEqual(name, "stop_all")
        test.assertIn(arguments["why"], ("a \"b\"\n", "\u00fc{}"))


def model_with_marks(folder, *marks, ends=(2,)):
    """The golden model whose special tokens are these marks, in the order of their ids from 3 on, and from 0 on the rest."""
    for file in MODEL.iterdir():
        shutil.copy(file, folder)
    path = pathlib.Path(folder, "tokenizer.json")
    words = json.loads(path.read_text())
    for token, mark in zip([t for t in words["added_tokens"] if t["id"] in (3, 4, 5, 6, 7, 0)], marks):
        words["model"]["vocab"].pop(token["content"], None)
        token["content"] = mark
        words["model"]["vocab"][mark] = token["id"]
    path.write_text(json.dumps(words))
    pathlib.Path(folder, "generation_config.json").write_text(json.dumps({"eos_token_id": list(ends)}))
    return folder


class SpecialMarks(unittest.TestCase):
    """Models whose marks are special tokens: a call has those tokens, not their letters."""

    def serve(self, parser, marks, template, ends=(2,)):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        server = Server("--tool-call-parser", parser, "--chat-template", template, "--special-tokens-in-text", "text",
                        *(["--reasoning-parser", "gpt-oss"] if parser == "gpt-oss" else []), model=model_with_marks(folder.name, *marks, ends=ends))
        self.addCleanup(server.kill)
        return server, {mark: server.post("/tokenize", {"prompt": mark, "add_special_tokens": False, "special_tokens_in_text": "special"}).json["tokens"] for mark in marks}

    def ask(self, server, seed, bias, **more):
        reply = server.post("/v1/chat/completions", {"messages": USER, "tools": TOOLS[:1], "temperature": 1, "seed": seed, "max_tokens": 300,
                                                     "return_token_ids": True, "logit_bias": bias, **more})
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json["choices"][0]

    def check(self, choice):
        self.assertEqual(choice["finish_reason"], "tool_calls", choice)
        for call in choice["message"]["tool_calls"]:
            check_call(self, call["function"]["name"], call["function"]["arguments"])

    def test_calls_are_opened_and_closed_with_them(self):
        marks = ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>")
        server, ids = self.serve("kimi_k2", marks, SHOWS)
        self.assertTrue(all(len(one) == 1 for one in ids.values()), ids)
        for seed in range(1, 4):
            for more, bias in (({"tool_choice": "required"}, {}), ({"parallel_tool_calls": False}, {str(ids[marks[0]][0]): 12, "2": -90})):
                choice = self.ask(server, seed, bias, **more)
                self.check(choice)
                for mark in marks:
                    self.assertIn(ids[mark][0], choice["token_ids"], (mark, choice))
                self.assertNotIn("<|", choice["message"]["content"] or "")

    def test_channels_are_special_tokens(self):
        marks = ("<|end|>", "<|channel|>", "<|start|>", "<|message|>", "<|return|>", "<|call|>")  # the last one has id 7
        template = "{% for t in tools or [] %}{{ t.function.name }};{% endfor %}{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}<|start|>assistant"
        server, ids = self.serve("gpt-oss", marks, template, ends=(2, 7))
        ids = {mark: ids[mark][0] for mark in marks}
        said = server.post("/tokenize", {"prompt": "analysis", "add_special_tokens": False}).json["tokens"]
        for seed in range(1, 4):
            at_once = self.ask(server, seed, {str(said[0]): -90}, tool_choice="required")
            thought = self.ask(server, seed, {str(said[0]): 90}, tool_choice="required", max_reasoning_tokens=9)
            for choice, channels, thinks in ((at_once, 1, False), (thought, 2, True)):
                self.check(choice)
                tokens = [choice["token_ids"].count(ids[mark]) for mark in ("<|channel|>", "<|call|>")]
                self.assertEqual((tokens, bool(choice["message"]["reasoning_content"])), ([channels, 1], thinks))


class Tools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--chat-template", SHOWS)

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()

    def ask(self, server=None, **more):
        body = {"messages": USER, "tools": TOOLS, "temperature": 1, "seed": 1, "max_tokens": 400, **more}
        return (server or self.server).post("/v1/chat/completions", body)

    def test_the_template_tells_the_format(self):
        self.assertEqual(self.server.get("/get_model_info").json["tool_call_parser"], "hermes")

    def test_a_call_that_must_come_is_valid_and_streams_as_it_is_told_whole(self):
        for name in JSON_FORMATS + OTHERS:
            with Server("--chat-template", SHOWS, "--tool-call-parser", name) as server:
                for seed in range(1, 5):
                    reply = self.ask(server, tool_choice="required", seed=seed)
                    self.assertEqual(reply.status, 200, (name, reply.body))
                    choice = reply.json["choices"][0]
                    calls = choice["message"]["tool_calls"]
                    self.assertIsNone(choice["message"]["content"], (name, choice))
                    if choice["finish_reason"] != "length":  # many calls may take all the tokens
                        self.assertEqual(choice["finish_reason"], "tool_calls")
                        for call in calls:
                            self.assertEqual(call["type"], "function")
                            check_call(self, call["function"]["name"], call["function"]["arguments"])
                    self.assertEqual(len({call["id"] for call in calls}), len(calls))
                    streamed = folded(self.ask(server, tool_choice="required", seed=seed, stream=True).events)
                    self.assertEqual(streamed[0], "")
                    self.assertEqual([(c["name"], c["arguments"]) for c in streamed[2]],
                                     [(c["function"]["name"], c["function"]["arguments"]) for c in calls], name)
                    self.assertEqual(streamed[3], choice["finish_reason"])

    def test_a_function_that_is_named_is_called_once(self):
        for choice in ({"type": "function", "function": {"name": "weather"}}, {"type": "function", "name": "weather"}):
            message = self.ask(tool_choice=choice).json["choices"][0]["message"]
            call, = message["tool_calls"]
            self.assertEqual(call["function"]["name"], "weather")
            self.assertRegex(call["id"], r"^call_[0-9a-f]{24}$")
            check_call(self, "weather", call["function"]["arguments"])

    def test_one_call_comes_where_several_are_not_wanted(self):
        for seed in range(1, 9):
            calls = self.ask(tool_choice="required", parallel_tool_calls=False, seed=seed).json["choices"][0]["message"]["tool_calls"]
            self.assertEqual(len(calls), 1)

    def test_free_calls_are_parsed_and_text_around_them_stays(self):
        said = 'So: <tool_call>\n{"name": "weather", "arguments": {"city": "Rome", "days": 2}}\n</tool_call>'
        for stream in (False, True):
            reply = self.ask(regex=re.escape(said), stream=stream)
            self.assertEqual(reply.status, 200, reply.body)
            if stream:
                text, _, calls, reason = folded(reply.events)
                name, arguments = calls[0]["name"], calls[0]["arguments"]
            else:
                choice = reply.json["choices"][0]
                text, reason = choice["message"]["content"], choice["finish_reason"]
                function = choice["message"]["tool_calls"][0]["function"]
                name, arguments = function["name"], function["arguments"]
            self.assertEqual((text.strip(), name, json.loads(arguments), reason),
                             ("So:", "weather", {"city": "Rome", "days": 2}, "tool_calls"))

    def test_text_that_looks_like_a_call_stays_text_without_tools(self):
        said = '<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>'
        for more in ({"tools": None}, {"tool_choice": "none"}):
            message = self.ask(regex=re.escape(said), **more).json["choices"][0]["message"]
            self.assertEqual(message["content"], said)
            self.assertNotIn("tool_calls", message)

    def test_tools_are_shown_unless_none_may_be_called(self):
        def prompt(**more):
            return self.server.post("/apply-template", {"messages": USER, "tools": TOOLS, **more}).json["prompt"]
        self.assertTrue(prompt().startswith("weather;stop_all;"))
        self.assertTrue(prompt(tool_choice="none").startswith("[user]"))

    def test_results_go_back_in_every_published_shape(self):
        for arguments in ('{"city":"Rome","days":1}', {"city": "Rome", "days": 1}, "", None, "{broken"):
            function = {"name": "weather", "arguments": arguments}
            messages = USER + [{"role": "assistant", "content": None, "tool_calls": [
                {"id": "c1", "type": "function", "function": function}]}, {"role": "tool", "tool_call_id": "c1", "content": "sun"}]
            reply = self.ask(messages=messages, max_tokens=3)
            self.assertEqual(reply.status, 200, (arguments, reply.body))

    def test_outputs_that_a_client_has_are_divided(self):
        text = 'So: <tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
        for more in ({}, {"tool_call_parser": "qwen25"}):
            told = self.server.post("/parse_function_call", {"text": text, "tools": TOOLS, **more}).json
            self.assertEqual(told["normal_text"].strip(), "So:")
            call, = told["calls"]
            self.assertEqual((call["tool_index"], call["name"], json.loads(call["parameters"])), (0, "weather", {"city": "Rome"}))
        self.assertEqual(self.server.post("/parse_function_call", {"text": "a", "tool_call_parser": "oracle"}).status, 400)
        told = self.server.post("/separate_reasoning", {"text": "<think>a</think>b", "reasoning_parser": "qwen3"}).json
        self.assertEqual((told["reasoning_text"], told["text"]), ("a", "b"))
        self.assertEqual(self.server.post("/separate_reasoning", {"text": "a"}).status, 400)

    @unittest.skipIf(openai is None, "the openai client is not installed")
    def test_openais_client_calls_tells_the_result_and_goes_on(self):
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none", max_retries=0)
        messages = list(USER)
        for turn in range(3):
            asked = {"model": "default", "messages": messages, "tools": TOOLS, "tool_choice": "required", "seed": turn,
                     "temperature": 1, "max_tokens": 150, "parallel_tool_calls": False}
            message = client.chat.completions.create(**asked).choices[0].message
            call, = message.tool_calls
            check_call(self, call.function.name, call.function.arguments)
            with client.chat.completions.stream(**asked) as stream:
                streamed = stream.get_final_completion().choices[0]
            self.assertEqual(streamed.finish_reason, "tool_calls")
            self.assertEqual([(c.function.name, c.function.arguments) for c in streamed.message.tool_calls],
                             [(call.function.name, call.function.arguments)])
            messages += [message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "ok"}]
        answer = client.chat.completions.create(model="default", messages=messages, tools=TOOLS, max_tokens=5)
        self.assertGreater(answer.usage.prompt_tokens_details.cached_tokens, 0)

    def test_what_cannot_be_is_refused_with_the_field(self):
        form = {"type": "json_object"}
        for more in ({"tool_choice": "required", "tools": []}, {"tool_choice": {"type": "function", "function": {"name": "other"}}},
                     {"tool_choice": "must"}, {"tool_choice": "required", "response_format": form}):
            reply = self.ask(**more)
            self.assertEqual(reply.status, 400, reply.body)
            self.assertEqual(reply.json["error"]["param"], "tool_choice")
        reply = self.ask(tools=[{"type": "function", "function": {"name": "a b"}}])
        self.assertEqual((reply.status, reply.json["error"]["param"]), (400, "tools[0].function.name"))

    def test_an_unknown_parser_stops_the_start(self):
        server = Server("--tool-call-parser", "oracle", wait=False)
        try:
            self.assertEqual(server.process.wait(30), 2)
            self.assertIn("hermes", server.text())
        finally:
            server.kill()


if __name__ == "__main__":
    unittest.main()
