"""Ollama's dialect: /api/chat and /api/generate, streamed and whole, models, refusals; with its own Python client."""
import json
import unittest

from harness import Server
from test_tools import SHOWS, TOOLS

try:
    import ollama
except ImportError:
    ollama = None

USER = [{"role": "user", "content": "What is the weather?"}]
TIMES = ("created_at", "total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
GREEDY = {"temperature": 0, "num_predict": 20}
SCHEMA = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"enum": ["x", "y"]}}, "required": ["b", "a"],
          "additionalProperties": False}


def lines(reply):
    assert reply.headers["content-type"] == "application/x-ndjson", reply.headers["content-type"]
    assert reply.body.endswith(b"\n")
    return [json.loads(line) for line in reply.body.decode().split("\n")[:-1]]


def folded(told):
    """The object that a stream adds up to."""
    whole, message = {}, {}
    for number, line in enumerate(told):
        assert line["done"] == (number == len(told) - 1), line
        inner = line.get("message", line)
        for name in ("content", "response", "thinking"):
            if name in inner:
                message[name] = message.get(name, "") + inner[name]
        for name in ("tool_calls",):
            if name in inner:
                message[name] = message.get(name, []) + inner[name]
        logprobs = whole.get("logprobs", []) + line.get("logprobs", [])
        whole.update(line)
        if logprobs:
            whole["logprobs"] = logprobs
        if "message" in line:
            whole["message"] = {"role": line["message"]["role"], **message}
        else:
            whole.update(message)
    return whole


def without_times(reply):
    return {name: value for name, value in reply.items() if name not in TIMES}


class Ollama(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--chat-template", SHOWS)
        cls.name = cls.server.get("/v1/models").json["data"][0]["id"]

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()

    def ask(self, path, status=200, **body):
        reply = self.server.post(path, {"model": self.name, "options": GREEDY, **body})
        self.assertEqual(reply.status, status, reply.body)
        return reply

    def test_streams_are_lines_that_add_up_to_the_whole_reply(self):
        for path, more in (("/api/chat", {"messages": USER}), ("/api/chat", {"messages": USER, "logprobs": True, "top_logprobs": 2}),
                           ("/api/chat", {"messages": USER, "format": "json", "options": {**GREEDY, "num_predict": 60}}),
                           ("/api/chat", {"messages": USER, "format": SCHEMA, "options": {**GREEDY, "num_predict": 90}}),
                           ("/api/chat", {"messages": USER, "options": {**GREEDY, "stop": ["a", "e"]}}),
                           ("/api/chat", {"messages": USER, "options": {"seed": 3, "num_predict": 30, "top_k": 20}}),
                           ("/api/generate", {"prompt": "Hello"}), ("/api/generate", {"prompt": "Hello", "raw": True}),
                           ("/api/generate", {"prompt": "Hello", "system": "Be brief.", "logprobs": True})):
            streamed = folded(lines(self.ask(path, **more)))
            whole = self.ask(path, stream=False, **more)
            self.assertEqual(whole.headers["content-type"], "application/json")
            self.assertEqual(without_times(streamed), without_times(whole.json))
            self.assertTrue(all(isinstance(whole.json[name], int) for name in TIMES[1:]))
            self.assertGreater(whole.json["eval_duration"], 0)

    def test_forms_hold(self):
        reply = self.ask("/api/chat", messages=USER, stream=False, format=SCHEMA, options={"seed": 1, "num_predict": 200}).json
        if reply["done_reason"] == "stop":
            value = json.loads(reply["message"]["content"])
            self.assertEqual(list(value), ["b", "a"])
            self.assertIn(value["a"], ("x", "y"))

    def test_the_same_conversation_is_the_same_prompt_as_in_chat_completions(self):
        call = {"function": {"name": "weather", "arguments": {"city": "Rome", "days": 2}}}
        history = [*USER, {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [call]},
                   {"role": "tool", "tool_name": "weather", "content": "sun"}, {"role": "user", "content": "Thanks"}]
        theirs = [*USER, {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [
            {"id": "call00000", "type": "function", **call}]},
            {"role": "tool", "name": "weather", "tool_call_id": "call00000", "content": "sun"}, {"role": "user", "content": "Thanks"}]
        ours = self.ask("/api/chat", messages=history, tools=TOOLS, stream=False).json
        chat = self.server.post("/v1/chat/completions", {"messages": theirs, "tools": TOOLS, "temperature": 0, "max_tokens": 20}).json
        self.assertEqual(ours["prompt_eval_count"], chat["usage"]["prompt_tokens"])
        self.assertEqual(ours["message"]["content"], chat["choices"][0]["message"]["content"])
        begun = [*USER, {"role": "assistant", "content": "It is"}]
        ours = self.ask("/api/chat", messages=begun, stream=False).json
        chat = self.server.post("/v1/chat/completions", {"messages": begun, "temperature": 0, "max_tokens": 20,
                                                         "continue_final_message": True}).json
        self.assertEqual(ours["message"]["content"], chat["choices"][0]["message"]["content"])

    def test_a_context_goes_on(self):
        first = self.ask("/api/generate", prompt="Hello", stream=False).json
        self.assertEqual(len(first["context"]), first["prompt_eval_count"] + first["eval_count"])
        second = self.ask("/api/generate", prompt="And?", context=first["context"], stream=False).json
        self.assertEqual(second["context"][:len(first["context"])], first["context"])
        alone = self.ask("/api/generate", prompt="And?", stream=False).json
        self.assertGreater(second["prompt_eval_count"], len(first["context"]))
        self.assertLessEqual(second["prompt_eval_count"], len(first["context"]) + alone["prompt_eval_count"])

    def test_raw_prompts_are_not_rendered(self):
        raw = self.ask("/api/generate", prompt="Hello", raw=True, stream=False).json
        native = self.server.generate(text="Hello", sampling_params={"temperature": 0, "max_new_tokens": 20})
        self.assertEqual((raw["response"], raw["prompt_eval_count"]), (native["text"], native["meta_info"]["prompt_tokens"]))
        self.assertNotIn("context", raw)
        for more in ({"system": "x"}, {"context": [1]}, {"template": "x"}):
            self.assertIn("raw mode", self.ask("/api/generate", prompt="Hello", raw=True, status=400, **more).json["error"])

    def test_without_a_prompt_the_model_is_there(self):
        for path, more in (("/api/chat", {}), ("/api/chat", {"messages": []}), ("/api/generate", {}),
                           ("/api/generate", {"prompt": "", "keep_alive": "5m"}), ("/api/generate", {"keep_alive": "1h30m5.5s"}),
                           ("/api/generate", {"keep_alive": -1}), ("/api/generate", {"keep_alive": "-1m"})):
            reply = self.ask(path, **more).json
            self.assertEqual((reply["done"], reply["done_reason"], reply["model"]), (True, "load", self.name))

    def test_names_may_have_the_usual_tag(self):
        reply = self.ask("/api/chat", model=f"{self.name}:latest", messages=USER, stream=False).json
        self.assertEqual(reply["model"], f"{self.name}:latest")
        self.assertEqual(self.ask("/api/chat", model="other:latest", messages=USER, status=404).json.keys(), {"error"})

    def test_models_are_told(self):
        tags, running = self.server.get("/api/tags").json["models"], self.server.get("/api/ps").json["models"]
        self.assertEqual(tags[0]["digest"], running[0]["digest"])
        self.assertEqual(tags[0]["name"], f"{self.name}:latest")
        shown = self.ask("/api/show").json
        architecture = shown["model_info"]["general.architecture"]
        self.assertEqual(shown["model_info"][f"{architecture}.context_length"], running[0]["context_length"])
        self.assertEqual((shown["template"], shown["details"]), (SHOWS, tags[0]["details"]))
        self.assertEqual(shown["capabilities"], ["completion", "tools"])
        self.assertEqual(self.server.post("/api/show", {"name": self.name}).json, shown)
        self.assertRegex(self.server.get("/api/version").json["version"], r"^\d+\.\d+\.\d+$")
        self.assertIn("Ollama is running", self.server.get("/").body.decode())
        self.assertEqual(self.server.request("HEAD", "/").status, 200)

    def test_a_model_that_is_there_is_pulled_at_once(self):
        self.assertEqual(lines(self.ask("/api/pull"))[-1], {"status": "success"})
        self.assertEqual(self.ask("/api/pull", stream=False).json, {"status": "success"})
        self.assertIn("espalier", self.ask("/api/pull", model="llama3.2", status=404).json["error"])
        for method, path in (("DELETE", "/api/delete"), ("POST", "/api/copy"), ("POST", "/api/create"), ("POST", "/api/push"),
                             ("POST", "/api/embed"), ("POST", "/api/embeddings")):
            reply = self.server.request(method, path, body={"model": self.name, "input": "a"})
            self.assertEqual((reply.status, list(reply.json)), (400, ["error"]))

    def test_hostile_bodies_are_refused_in_ollamas_shape(self):
        turn = [{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": 3}}]}]
        for path, body, word in (
                ("/api/chat", {"messages": [{"role": "user", "content": "a", "images": ["aGk="]}]}, "images"),
                ("/api/generate", {"prompt": "a", "images": ["aGk="]}, "images"),
                ("/api/chat", {"messages": [{"content": "a"}]}, "role"), ("/api/chat", {"messages": [{"role": "u", "content": "a"}]}, "role"),
                ("/api/chat", {"messages": "a"}, "messages"), ("/api/chat", {"messages": [3]}, "messages[0]"),
                ("/api/chat", {"messages": turn}, "tool_calls"), ("/api/chat", {"messages": USER, "tools": "a"}, "tools"),
                ("/api/chat", {"messages": USER, "format": "yaml"}, "format"), ("/api/chat", {"messages": USER, "format": 3}, "format"),
                ("/api/chat", {"messages": USER, "format": {"type": 5}}, "format"),
                ("/api/chat", {"messages": USER, "think": True}, "thinking"), ("/api/chat", {"messages": USER, "think": "much"}, "think"),
                ("/api/chat", {"messages": USER, "think": 3}, "think"), ("/api/chat", {"messages": USER, "stream": "yes"}, "stream"),
                ("/api/chat", {"messages": USER, "options": 3}, "options"), ("/api/chat", {"messages": USER, "keep_alive": []}, "keep_alive"),
                ("/api/chat", {"messages": USER, "options": {"temperature": "hot"}}, "options.temperature"),
                ("/api/chat", {"messages": USER, "options": {"mirostat": 1}}, "options.mirostat"),
                ("/api/chat", {"messages": USER, "top_logprobs": 21}, "top_logprobs"),
                ("/api/generate", {"prompt": "a", "template": "{{ .Prompt }}"}, "template"),
                ("/api/generate", {"prompt": "a", "suffix": "b"}, "suffix"), ("/api/generate", {"prompt": "a", "context": "x"}, "context"),
                ("/api/generate", {"prompt": "a" * 100_000}, "prompt"), ("/api/generate", {"prompt": "a", "context": [99999999]}, "")):
            reply = self.server.post(path, {"options": GREEDY, **body})
            self.assertEqual((reply.status, list(reply.json)), (400, ["error"]), (body, reply.body))
            self.assertIn(word, reply.json["error"])
        for data in (b"{", b"[1]", b"", b"\xff"):
            reply = self.server.request("POST", "/api/chat", body=data)
            self.assertEqual((reply.status, list(reply.json)), (400, ["error"]))
        self.assertEqual(self.server.get("/api/chat").status, 405)

    def test_what_loading_takes_and_samplers_that_are_off_have_no_effect(self):
        more = {"num_ctx": 64, "num_gpu": 1, "num_thread": 2, "mirostat": 0, "typical_p": 1.0, "repeat_last_n": 64, "num_keep": 2,
                "penalize_newline": True, "seed": 4, "use_mmap": True}
        plain, given = (self.ask("/api/chat", messages=USER, stream=False, options=o).json for o in (GREEDY, {**GREEDY, **more}))
        self.assertEqual(plain["message"], given["message"])
        self.assertEqual(self.ask("/api/chat", messages=USER, stream=False, options={**GREEDY, "num_predict": 3}).json["eval_count"], 3)


class Thinking(unittest.TestCase):
    def test_thinking_is_told_apart(self):
        template = "{% for m in messages %}{{ m.content }}{% endfor %}<think>"
        with Server("--chat-template", template, "--reasoning-parser", "deepseek-r1") as server:
            body = {"messages": USER, "options": {"temperature": 0, "num_predict": 20}}
            whole = server.post("/api/chat", {**body, "stream": False}).json
            self.assertEqual(without_times(folded(lines(server.post("/api/chat", body)))), without_times(whole))
            self.assertNotEqual(whole["message"]["thinking"], "")
            self.assertEqual(whole["message"]["content"], "")
            self.assertIn("thinking", server.post("/api/show", {}).json["capabilities"])
            self.assertEqual(server.post("/api/chat", {**body, "think": "low", "stream": False}).status, 200)
            shown = server.post("/api/generate", {"prompt": "a", "think": True, "stream": False, "options": body["options"]}).json
            self.assertNotEqual(shown["thinking"], "")


@unittest.skipIf(ollama is None, "the ollama client is not installed")
class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--chat-template", SHOWS, "--served-model-name", "tiny")
        cls.client = ollama.Client(host=f"http://127.0.0.1:{cls.server.port}")

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()

    def test_chat_and_generate_stream_as_they_answer_whole(self):
        asked = {"model": "tiny", "options": GREEDY}
        whole = self.client.chat(messages=USER, **asked)
        pieces = list(self.client.chat(messages=USER, stream=True, **asked))
        self.assertEqual("".join(p.message.content for p in pieces), whole.message.content)
        self.assertEqual((pieces[-1].done_reason, pieces[-1].eval_count), ("length", 20))
        whole = self.client.generate(prompt="Hello", **asked)
        pieces = list(self.client.generate(prompt="Hello", stream=True, **asked))
        self.assertEqual("".join(p.response for p in pieces), whole.response)
        self.assertEqual(list(pieces[-1].context), list(whole.context))

    def test_tools_go_along_and_results_come_back(self):
        def weather(city: str, days: int) -> str:
            """The weather of a city.

            Args:
              city: which
              days: from today
            """
            return f"{city} {days}"

        call = ollama.Message.ToolCall(function=ollama.Message.ToolCall.Function(name="weather", arguments={"city": "Rome", "days": 1}))
        messages = [*USER, ollama.Message(role="assistant", content="", tool_calls=[call]),
                    ollama.Message(role="tool", tool_name="weather", content="sun")]
        reply = self.client.chat(model="tiny", messages=messages, tools=[weather], options=GREEDY)
        self.assertEqual(reply.message.role, "assistant")

    def test_models_and_refusals(self):
        self.assertEqual([m.model for m in self.client.list().models], ["tiny:latest"])
        self.assertEqual([m.model for m in self.client.ps().models], ["tiny:latest"])
        self.assertIn("tools", self.client.show("tiny:latest").capabilities)
        self.assertEqual(self.client.pull("tiny").status, "success")
        self.assertEqual([p.status for p in self.client.pull("tiny", stream=True)][-1], "success")
        for refused in (lambda: self.client.pull("other"), lambda: self.client.delete("tiny"), lambda: self.client.copy("tiny", "b"),
                        lambda: self.client.embed(model="tiny", input="a"), lambda: self.client.push("tiny"),
                        lambda: self.client.create(model="b", from_="tiny"),
                        lambda: self.client.chat(model="other", messages=USER),
                        lambda: list(self.client.chat(model="tiny", messages=[{"role": "user", "content": "a", "images": ["aGk="]}], stream=True))):
            with self.assertRaises(ollama.ResponseError) as caught:
                refused()
            self.assertIn(caught.exception.status_code, (400, 404))
            self.assertNotIn("{", caught.exception.error)


if __name__ == "__main__":
    unittest.main()
