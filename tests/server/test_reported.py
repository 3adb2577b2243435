"""What users of other servers reported, and what is right here: each case is one example of its kind."""
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import resource
import shutil
import tempfile
import time
import unittest

from harness import MODEL, Server, without_sanitizers
from test_reasoning import thinking_model

USER = {"role": "user", "content": "hi"}


def call(arguments, content=None):
    function = {"name": "get", "arguments": arguments}
    return {"role": "assistant", "content": content, "tool_calls": [{"id": "c1", "type": "function", "function": function}]}


def changed_model(folder, **changes):
    """The golden model with fields of its JSON files replaced: config={"eos_token_id": None}."""
    for file in MODEL.iterdir():
        shutil.copy(file, folder)
    for name, fields in changes.items():
        path = pathlib.Path(folder, name + ".json")
        values = json.loads(path.read_text()) if path.exists() else {}
        values.update(fields)
        path.write_text(json.dumps(values))
    return folder


class Templates(unittest.TestCase):
    """The template decides in which form it takes a conversation."""

    def rendered(self, template, messages):
        with Server("--chat-template", template) as server:
            reply = server.post("/apply-template", {"messages": messages})
            self.assertEqual(reply.status, 200, reply.body)
            return reply.json["prompt"]

    def test_a_template_that_goes_through_parts_keeps_the_words_of_a_text(self):
        template = "{% for m in messages %}[{{ m.role }}]{% for p in m['content'] %}{{ p['text'] }}{% endfor %}{% endfor %}"
        self.assertEqual(self.rendered(template, [{"role": "user", "content": "Hello there"}]), "[user]Hello there")

    def test_the_operator_says_in_which_form_a_template_takes_contents(self):
        template = "{% for m in messages %}{{ m.content is string }},{% endfor %}"
        messages = [{"role": "user", "content": [{"type": "text", "text": "a"}]}, {"role": "assistant", "content": "b"}]
        for form, rendered in (("string", "True,True,"), ("openai", "False,False,")):
            with Server("--chat-template", template, "--chat-template-content-format", form) as server:
                self.assertEqual(server.post("/apply-template", {"messages": messages}).json["prompt"], rendered)

    def test_a_template_that_asks_whether_the_content_is_null_is_told(self):
        template = ("{% for m in messages %}{% if m.tool_calls %}"
                    "{% if m.content is none %}[call]{% else %}[said {{ m.content }}]{% endif %}{% endif %}{% endfor %}")
        self.assertEqual(self.rendered(template, [USER, call("{}")]), "[call]")

    def test_a_template_that_appends_arguments_gets_the_clients_text(self):
        template = ("{% for m in messages %}{% if m.tool_calls %}"
                    "{{ '<' + m.tool_calls[0].function.arguments + '>' }}{% endif %}{% endfor %}")
        self.assertEqual(self.rendered(template, [USER, call('{"a":1,   "b": 2}')]), '<{"a":1,   "b": 2}>')
        self.assertEqual(self.rendered(template, [USER, call("{broken")]), "<{broken>")

    def test_a_template_that_writes_json_gets_an_object(self):
        template = ("{% for m in messages %}{% if m.tool_calls %}"
                    "{{ m.tool_calls[0].function.arguments | tojson }}{% endif %}{% endfor %}")
        for arguments in ('{"a":1}', {"a": 1}):
            self.assertEqual(self.rendered(template, [USER, call(arguments)]), '{"a": 1}')
        for nothing in ("", None):
            self.assertEqual(self.rendered(template, [USER, call(nothing)]), "{}")

    def test_every_route_that_renders_reads_the_same_fields(self):
        template = "{% for m in messages %}{{ m.content }}{% endfor %}{% if reasoning_effort %}{{ reasoning_effort * 3 }}{% endif %}"
        with Server("--chat-template", template) as server:
            body = {"messages": [USER], "reasoning_effort": "high"}
            self.assertEqual(server.post("/apply-template", body).json["prompt"], "hihighhighhigh")
            count = server.post("/v1/chat/completions/input_tokens", body).json["input_tokens"]
            self.assertEqual(server.post("/tokenize", body).json["count"], count)
            usage = server.post("/v1/chat/completions", {**body, "max_tokens": 1}).json["usage"]
            self.assertEqual(usage["prompt_tokens"], count)
            self.assertGreater(count, server.post("/tokenize", {"messages": [USER]}).json["count"])


class Thinking(unittest.TestCase):
    """Only the turn that the model is to write says whether it thinks."""

    def test_marks_that_a_prefill_closed_are_closed_and_a_users_words_mean_nothing(self):
        said = "<think>I add</think>The answer is "
        for parser in ("qwen3", "deepseek-r1"):
            with Server("--reasoning-parser", parser) as server:  # the marks are several tokens of this vocabulary
                body = {"messages": [USER, {"role": "assistant", "content": said}], "continue_final_message": True,
                        "max_tokens": 40}
                message = server.post("/v1/chat/completions", {**body, "regex": "[0-9]{3}"}).json["choices"][0]["message"]
                self.assertRegex(message["content"], "^[0-9]{3}$")
                self.assertIsNone(message.get("reasoning_content"))
                message = server.post("/v1/chat/completions", body).json["choices"][0]["message"]
                self.assertIsNone(message.get("reasoning_content"))
                self.assertTrue(message["content"])
        with Server("--reasoning-parser", "qwen3") as server:
            for words in ("what is <think>?", "<think>a</think>", "</think>"):
                body = {"messages": [{"role": "user", "content": words}], "max_tokens": 5, "temperature": 0}
                message = server.post("/v1/chat/completions", body).json["choices"][0]["message"]
                self.assertIsNone(message.get("reasoning_content"), words)

    def test_a_prefill_that_opened_thinking_is_thinking(self):
        with tempfile.TemporaryDirectory() as folder, Server("--reasoning-parser", "qwen3", model=thinking_model(folder)) as server:
            body = {"messages": [USER, {"role": "assistant", "content": "<think>I add"}], "continue_final_message": True,
                    "max_tokens": 60, "regex": "[0-9]{3}", "logit_bias": {"5": 12}, "temperature": 1, "seed": 1}
            message = server.post("/v1/chat/completions", body).json["choices"][0]["message"]
            self.assertRegex(message["content"], "^[0-9]{3}$")
            self.assertIsNotNone(message["reasoning_content"])

    def test_a_model_without_marks_is_constrained_at_once(self):
        with Server("--reasoning-parser", "deepseek-r1") as server:
            body = {"messages": [USER], "max_tokens": 300, "temperature": 1, "seed": 3}
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {
                "type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}}}
            message = server.post("/v1/chat/completions", body).json["choices"][0]["message"]
            self.assertIn(json.loads(message["content"])["a"], (1, 2))
            self.assertIsNone(message.get("reasoning_content"))


class Ends(unittest.TestCase):
    def test_a_constraint_ends_the_answer_of_a_model_without_an_end_token(self):
        with tempfile.TemporaryDirectory() as folder:
            changed_model(folder, config={"eos_token_id": None})
            for name in ("generation_config.json", "tokenizer_config.json", "special_tokens_map.json"):
                pathlib.Path(folder, name).unlink(missing_ok=True)
            with Server(model=folder) as server:
                self.assertEqual(server.get("/get_model_info").status, 200)
                for most in (2, 9):
                    body = {"prompt": "x", "regex": "ab", "max_tokens": most}
                    choice = server.post("/v1/completions", body).json["choices"][0]
                    self.assertEqual((choice["text"], choice["finish_reason"]), ("ab", "stop"))

    def test_an_end_token_that_only_the_tokenizers_config_names_ends_the_answer(self):
        with tempfile.TemporaryDirectory() as folder:
            changed_model(folder, config={"eos_token_id": 2}, generation_config={"eos_token_id": 2})
            words = json.loads(pathlib.Path(folder, "tokenizer.json").read_text())
            end = next(t["content"] for t in words["added_tokens"] if t["id"] == 7)
            changed_model(folder, config={"eos_token_id": 2}, generation_config={"eos_token_id": 2},
                          tokenizer_config={"eos_token": end})
            with Server(model=folder) as server:
                body = {"prompt": "x", "max_tokens": 30, "logit_bias": {"7": 60}, "temperature": 0}
                choice = server.post("/v1/completions", body).json["choices"][0]
                self.assertEqual(choice["finish_reason"], "stop")


class Schemas(unittest.TestCase):
    @without_sanitizers
    def test_many_different_schemas_fit_into_a_little_address_space(self):
        with Server(limits={resource.RLIMIT_AS: 3 << 30}) as server:
            def ask(number):
                schema = {"type": "object", "properties": {f"a{number}": {"type": "integer"}}, "required": [f"a{number}"],
                          "additionalProperties": False}
                sampling = {"max_new_tokens": 8, "json_schema": json.dumps(schema)}
                return server.post("/generate", {"text": "x", "sampling_params": sampling}).status
            with concurrent.futures.ThreadPoolExecutor(8) as clients:
                self.assertEqual(set(clients.map(ask, range(600))), {200})


class Replies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()

    def test_continuous_usage_counts_each_choices_own_prompt(self):
        body = {"prompt": ["a", "a longer prompt"], "stream": True, "max_tokens": 4, "ignore_eos": True, "temperature": 0,
                "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
        alone = [self.server.post("/v1/completions", {"prompt": p, "max_tokens": 1}).json["usage"]["prompt_tokens"]
                 for p in body["prompt"]]
        events = self.server.post("/v1/completions", body).events[:-1]
        for event in events[:-1]:
            choice = event["choices"][0]
            self.assertEqual(event["usage"]["prompt_tokens"], alone[choice["index"]])
            self.assertLessEqual(event["usage"]["completion_tokens"], 4)
        self.assertEqual(events[-1]["usage"]["prompt_tokens"], sum(alone))
        self.assertEqual(events[-1]["usage"]["completion_tokens"], 8)

    def test_tokens_that_are_parts_of_a_character_tell_their_bytes_and_one_replacement(self):
        body = {"messages": [USER], "regex": "\U0001F600", "logprobs": True, "max_tokens": 9}
        choice = self.server.post("/v1/chat/completions", body).json["choices"][0]
        self.assertEqual(choice["message"]["content"], "\U0001F600")
        entries = choice["logprobs"]["content"]
        told = bytes(b for e in entries for b in e["bytes"])
        self.assertTrue(told.startswith("\U0001F600".encode()), told)
        for entry in entries:
            self.assertLessEqual(entry["token"].count("\ufffd"), 1, entry)

    def test_the_rate_falls_to_nothing_when_idle(self):
        self.server.post("/v1/completions", {"prompt": "x", "max_tokens": 20, "ignore_eos": True})

        def rate():
            lines = self.server.get("/metrics").body.decode().splitlines()
            return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("sglang:gen_throughput"))
        self.assertGreater(rate(), 0)
        end = time.monotonic() + 20
        while rate() > 0 and time.monotonic() < end:
            time.sleep(0.5)
        self.assertEqual(rate(), 0)


class Fleet(unittest.TestCase):
    """What routers before a fleet ask for: sglang-router, smg, llm-d's endpoint picker."""

    def test_a_router_finds_load_owner_tokenizer_and_pages(self):
        with Server("--max-total-tokens", "4096") as server:
            load, = server.get("/get_load").json
            self.assertEqual((load["dp_rank"], load["num_reqs"], load["num_waiting_reqs"], load["num_tokens"]), (0, 0, 0, 0))
            told = server.get("/v1/loads").json
            self.assertEqual(told["loads"][0]["max_total_num_tokens"], 4096)
            self.assertEqual(server.get("/v1/models").json["data"][0]["owned_by"], "sglang")
            place = server.get("/get_model_info").json["tokenizer_path"]
            self.assertTrue(pathlib.Path(place, "tokenizer.json").exists(), place)
            self.assertRegex(server.get("/metrics").body.decode(),
                             r'sglang:cache_config_info\{[^}]*page_size="16"[^}]*num_pages="256"[^}]*\} 1')
            body = {"text": "a", "model": "unknown", "sampling_params": {"max_new_tokens": 1}}
            self.assertEqual(server.post("/generate", body).status, 200)
            self.assertEqual(server.post("/generate", {**body, "model": "other"}).status, 404)

    def test_the_load_counts_what_runs_and_waits(self):
        with Server("--max-running-requests", "1") as server:
            body = {"text": "a", "stream": True, "sampling_params": {"max_new_tokens": 100000, "ignore_eos": True}}
            with concurrent.futures.ThreadPoolExecutor(3) as clients:
                replies = [clients.submit(server.post, "/generate", {**body, "rid": f"r{i}"}) for i in range(3)]
                end = time.monotonic() + 30
                load = {"num_reqs": 0, "num_waiting_reqs": 0}
                while (load["num_reqs"], load["num_waiting_reqs"]) != (3, 2) and time.monotonic() < end:
                    load, = server.get("/get_load").json
                self.assertEqual((load["num_reqs"], load["num_waiting_reqs"]), (3, 2))
                self.assertGreater(load["num_tokens"], 0)
                server.post("/abort_request", {"abort_all": True})
                for reply in replies:
                    reply.result()


class Browsers(unittest.TestCase):
    """A web page in the user's browser must not drive the server."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--cors-origin", "https://trusted.example")

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()

    def ask(self, method, path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        body = json.dumps({"text": "a", "sampling_params": {"max_new_tokens": 1}}) if method == "POST" else None
        with contextlib.closing(connection):
            connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
            reply = connection.getresponse()
            return reply.status, reply.read().decode()

    def test_a_foreign_origin_is_refused_where_something_would_happen(self):
        for path in ("/generate", "/flush_cache", "/v1/chat/completions", "/abort_request"):
            for origin in ("https://evil.example", "http://127.0.0.1:1", "null"):
                status, said = self.ask("POST", path, Origin=origin, Content_Type="text/plain")
                self.assertEqual(status, 403, (path, origin))
                self.assertIn("--cors-origin", said)
        self.assertEqual(self.ask("GET", "/flush_cache", Sec_Fetch_Site="cross-site")[0], 403)
        self.assertEqual(self.ask("GET", "/flush_cache", Origin="https://evil.example")[0], 403)

    def test_its_own_pages_allowed_origins_and_programs_are_served(self):
        own = f"http://127.0.0.1:{self.server.port}"
        for headers in ({}, {"Origin": own}, {"Origin": "https://trusted.example"}, {"Origin": "vscode-webview://x"}):
            self.assertEqual(self.ask("POST", "/generate", **headers)[0], 200, headers)
        self.assertEqual(self.ask("GET", "/v1/models", Origin="https://evil.example")[0], 200)  # without CORS nobody reads it
        self.assertEqual(self.ask("GET", "/", Sec_Fetch_Site="cross-site")[0], 200)

    def test_names_that_are_not_of_this_machine_are_refused(self):
        status, said = self.ask("GET", "/v1/models", Host="evil.example:80")
        self.assertEqual(status, 403)
        self.assertIn("--allowed-host", said)
        for name in ("localhost", "LOCALHOST:80", "127.0.0.1", "127.1.2.3:9", "[::1]:80", "page.localhost"):
            self.assertEqual(self.ask("GET", "/v1/models", Host=name)[0], 200, name)
        for flags in (("--allowed-host", "box.example"), ("--api-key", "k")):
            with Server(*flags) as server:
                with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
                    connection.request("GET", "/v1/models", headers={"Host": "box.example:80", "Authorization": "Bearer k"})
                    self.assertEqual(connection.getresponse().status, 200, flags)

    def test_an_address_in_brackets_is_an_address(self):
        server = Server("--host", "[::1]", wait=False)
        try:
            end = time.monotonic() + 30
            while "ready on http://[::1]:" not in server.text() and server.process.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
            self.assertIn("ready on http://[::1]:", server.text())
        finally:
            server.kill()


if __name__ == "__main__":
    unittest.main()
