"""OpenAI's Responses API and conversations: streamed and whole, gone on from, kept, listed, cancelled, after a crash."""
import json
import pathlib
import signal
import tempfile
import time
import unittest

from harness import MODEL, Server
from test_reasoning import CITY, THINKS, thinking_model
from test_tools import SHOWS, TOOLS, check_call

try:
    import openai
except ImportError:
    openai = None

# The Responses API's form of the same tools.
FUNCTIONS = [{"type": "function", **t["function"]} for t in TOOLS]
# Special tokens are no part of a text, so a conversation that is rendered again cannot have them.
PLAIN = {str(t["id"]): -100 for t in json.loads((MODEL / "tokenizer.json").read_text())["added_tokens"] if t["special"]}
OPENS = {"message": ["response.content_part.added"], "reasoning": ["response.content_part.added"], "function_call": []}
NAMES = {"message": "output_text", "reasoning": "reasoning_text", "function_call": "function_call_arguments"}


def named_events(reply):
    """The events of a stream; each is named twice and numbered."""
    events = []
    for block in reply.body.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in lines:
            data = json.loads(lines["data"])
            assert data["type"] == lines["event"], lines
            events.append(data)
    return events


def folded(events, first=0):
    """The response that a stream adds up to; order, numbers and every repetition in it are checked on the way."""
    assert [e["sequence_number"] for e in events] == list(range(first, first + len(events))), events
    begins = [("response.created", "in_progress"), ("response.in_progress", "in_progress")]
    if events[0]["response"]["background"]:
        begins = [("response.created", "queued"), ("response.queued", "queued"), begins[1]]
    for event, begin in zip(events, begins):
        assert (event["type"], event["response"]["status"], event["response"]["output"]) == (*begin, [])
    output, texts, at = [], [], len(begins)
    while events[at]["type"] == "response.output_item.added":
        item = events[at]["item"]
        kind, index = item["type"], events[at]["output_index"]
        assert (index, item["status"]) == (len(output), "in_progress")
        at += 1
        for opening in OPENS[kind]:
            assert (events[at]["type"], events[at]["part"]["text"]) == (opening, "")
            at += 1
        text, logprobs = "", []
        while events[at]["type"] == f"response.{NAMES[kind]}.delta":
            assert (events[at]["item_id"], events[at]["output_index"]) == (item["id"], index)
            text += events[at]["delta"]
            logprobs += events[at].get("logprobs", [])
            at += 1
        assert events[at]["type"] == f"response.{NAMES[kind]}.done", events[at]
        assert events[at]["arguments" if kind == "function_call" else "text"] == text
        at += 1
        if OPENS[kind]:
            assert (events[at]["type"], events[at]["part"]["text"]) == ("response.content_part.done", text)
            at += 1
        assert events[at]["type"] == "response.output_item.done", events[at]
        done = events[at]["item"]
        assert done["id"] == item["id"]
        if kind == "function_call":
            assert done["arguments"] == text
        else:
            assert done["content"][0]["text"] == text
        if kind == "message":
            whole = done["content"][0]["logprobs"]
            assert whole[:len(logprobs)] == logprobs and len(whole) - len(logprobs) <= 2  # tokens without text at the end
        output.append(done)
        texts.append(text)
        at += 1
    last = events[at]
    assert at == len(events) - 1 and last["type"] == f"response.{last['response']['status']}", events[at:]
    assert last["response"]["output"] == output
    return last["response"]


def without_ids(response):
    """What two runs of the same request have in common."""
    response = json.loads(json.dumps(response))
    for name in ("id", "created_at", "completed_at"):
        response.pop(name)
    for item in response["output"]:
        item.pop("id")
        item.pop("call_id", None)
    response["usage"].pop("input_tokens_details")  # the second time the cache has the prompt
    return response


class ResponsesCase(unittest.TestCase):
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.server = Server("--chat-template", SHOWS, "--data-dir", cls.folder.name + "/data", *cls.FLAGS)
        cls.addClassCleanup(cls.server.kill)

    def ask(self, path="/v1/responses", status=200, server=None, **more):
        body = {"input": "Hi", "max_output_tokens": 20, "temperature": 0, **more}
        reply = (server or self.server).post(path, body)
        self.assertEqual(reply.status, status, reply.body)
        return reply

    def get(self, path, status=200, **more):
        reply = self.server.get(path, **more)
        self.assertEqual(reply.status, status, reply.body)
        return reply.json

    def wait_for(self, response, server=None):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            now = (server or self.server).get("/v1/responses/" + response["id"]).json
            if now["status"] not in ("queued", "in_progress"):
                return now
            time.sleep(0.02)
        raise AssertionError(f"the response did not end: {now}")


class Responses(ResponsesCase):
    def test_a_response_streams_as_it_is_told_whole_and_as_it_is_kept(self):
        for more in ({}, {"max_output_tokens": 300, "tools": FUNCTIONS, "tool_choice": "required"},
                     {"instructions": "Be brief.", "input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}]},
                     {"include": ["message.output_text.logprobs"], "top_logprobs": 3},
                     {"max_output_tokens": 200, "text": {"format": {"type": "json_schema", "name": "city", "schema": CITY}}}):
            whole = self.ask(**more).json
            stream = named_events(self.ask(stream=True, **more))
            streamed = folded(stream)
            self.assertEqual(without_ids(streamed), without_ids(whole))
            for response in (whole, streamed):
                self.assertEqual(self.get("/v1/responses/" + response["id"]), response)
            replayed = self.server.get(f"/v1/responses/{streamed['id']}?stream=true")
            self.assertEqual(named_events(replayed), stream)
            later = self.server.get(f"/v1/responses/{streamed['id']}?stream=true&starting_after=3")
            self.assertEqual(named_events(later), stream[4:])
            self.assertEqual(self.server.get(f"/v1/responses/{whole['id']}?stream=true").status, 400)
            usage = whole["usage"]
            self.assertEqual(usage["total_tokens"], usage["input_tokens"] + usage["output_tokens"])
            self.assertEqual(self.ask("/v1/responses/input_tokens", **more).json,
                             {"object": "response.input_tokens", "input_tokens": usage["input_tokens"]})

    def test_a_response_has_what_chat_completions_says_of_the_same_conversation(self):
        chat = self.server.post("/v1/chat/completions", {"messages": [
            {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}], "max_tokens": 20, "temperature": 0,
            "logprobs": True, "top_logprobs": 2}).json
        response = self.ask(instructions="Be brief.", include=["message.output_text.logprobs"], top_logprobs=2).json
        part = response["output"][0]["content"][0]
        self.assertEqual(part["text"], chat["choices"][0]["message"]["content"])
        self.assertEqual(part["logprobs"], chat["choices"][0]["logprobs"]["content"])
        self.assertEqual(response["usage"]["input_tokens"], chat["usage"]["prompt_tokens"])
        self.assertEqual((response["status"], response["incomplete_details"]), ("incomplete", {"reason": "max_output_tokens"}))

    def test_a_form_is_kept(self):
        schema = {"type": "json_schema", "name": "city", "schema": CITY, "strict": True}
        response = self.ask(max_output_tokens=100, text={"format": schema}).json
        self.assertEqual(response["status"], "completed")
        self.assertIn(json.loads(response["output"][0]["content"][0]["text"])["city"], ("Rome", "Oslo"))
        self.assertEqual(response["text"]["format"], schema)
        refused = self.ask(status=400, text={"format": {**schema, "schema": {"type": "strange"}}}).json["error"]
        self.assertTrue(refused["param"].startswith("text.format"), refused)

    def test_the_next_turn_finds_all_of_the_last_one_in_the_cache(self):
        response = self.ask(input="One " * 20, logit_bias=PLAIN).json
        for turn in range(3):
            before = response["usage"]
            response = self.ask(input=f"And {turn}?", previous_response_id=response["id"], logit_bias=PLAIN).json
            cached = response["usage"]["input_tokens_details"]["cached_tokens"]
            # Prompt and output of the turn before, but for the last token, whose key nobody computed.
            self.assertGreaterEqual(cached, before["input_tokens"] + before["output_tokens"] - 1)
            self.assertEqual(response["usage"]["input_tokens"], self.ask(
                "/v1/responses/input_tokens", input=f"And {turn}?",
                previous_response_id=response["previous_response_id"]).json["input_tokens"])

    def test_instructions_are_not_taken_along(self):
        first = self.ask(instructions="Be brief.", store=True).json
        second = self.ask(input="Go on", previous_response_id=first["id"], max_output_tokens=5).json
        text = first["output"][0]["content"][0]["text"]
        by_hand = self.ask("/v1/responses/input_tokens", input=[
            {"role": "user", "content": "Hi"}, {"role": "assistant", "content": text}, {"role": "user", "content": "Go on"}])
        self.assertEqual(second["usage"]["input_tokens"], by_hand.json["input_tokens"])
        self.assertIsNone(second["instructions"])

    def test_functions_are_called_and_their_outputs_go_back(self):
        response = self.ask(tools=FUNCTIONS, tool_choice="required", parallel_tool_calls=False, max_output_tokens=300).json
        for turn in range(2):
            call, = response["output"]
            self.assertEqual((call["type"], call["status"]), ("function_call", "completed"))
            check_call(self, call["name"], call["arguments"])
            response = self.ask(previous_response_id=response["id"], tools=FUNCTIONS, parallel_tool_calls=False, max_output_tokens=300,
                                tool_choice={"type": "function", "name": "weather"},
                                input=[{"type": "function_call_output", "call_id": call["call_id"], "output": "sun"}]).json
        items = self.get(f"/v1/responses/{response['id']}/input_items")["data"]
        self.assertEqual([(i["type"], i["output"]) for i in items], [("function_call_output", "sun")])

    def test_the_same_conversation_is_the_same_whoever_keeps_it(self):
        first = self.ask(tools=FUNCTIONS, tool_choice="required", parallel_tool_calls=False, max_output_tokens=300, seed=3, temperature=1).json
        call, = first["output"]
        out = {"type": "function_call_output", "call_id": call["call_id"], "output": [{"type": "input_text", "text": "sun"}]}
        kept = self.ask(previous_response_id=first["id"], input=[out], tools=FUNCTIONS).json
        sent = self.ask(input=[{"role": "user", "content": "Hi"}, call, out], tools=FUNCTIONS, store=False).json
        named = self.ask(input=[{"role": "user", "content": "Hi"}, {"type": "item_reference", "id": call["id"]}, out], tools=FUNCTIONS).json
        self.assertEqual(sent["usage"]["input_tokens"], named["usage"]["input_tokens"])
        self.assertEqual(sent["output"][0]["content"], named["output"][0]["content"])
        self.assertEqual(kept["output"][0]["type"], "message")
        self.assertEqual(self.server.get("/v1/responses/" + sent["id"]).status, 404)

    def test_input_items_come_in_pages(self):
        given = [{"role": "user", "content": str(i)} for i in range(5)]
        response = self.ask(input=given).json
        path = f"/v1/responses/{response['id']}/input_items"
        texts = []
        page = self.get(path + "?limit=2&order=asc")
        while True:
            texts += [item["content"][0]["text"] for item in page["data"]]
            self.assertEqual((page["first_id"], page["last_id"]), (page["data"][0]["id"], page["data"][-1]["id"]))
            if not page["has_more"]:
                break
            page = self.get(f"{path}?limit=2&order=asc&after={page['last_id']}")
        self.assertEqual(texts, ["0", "1", "2", "3", "4"])
        self.assertEqual([i["content"][0]["text"] for i in self.get(path)["data"]], texts[::-1])
        for query in ("limit=0", "limit=101", "limit=x", "order=up"):
            self.get(f"{path}?{query}", 400)
        self.get(path + "?after=item_x", 404)

    def test_a_deleted_response_is_gone(self):
        response = self.ask().json
        path = "/v1/responses/" + response["id"]
        self.assertEqual(self.server.request("DELETE", path).json, {"id": response["id"], "object": "response", "deleted": True})
        self.get(path, 404)
        self.assertEqual(self.server.request("DELETE", path).status, 404)
        error = self.ask(previous_response_id=response["id"], status=404).json["error"]
        self.assertEqual((error["code"], error["param"]), ("previous_response_not_found", "previous_response_id"))

    def test_what_runs_in_the_background_needs_no_client(self):
        wanted = self.ask(seed=5, temperature=1).json
        queued = self.ask(seed=5, temperature=1, background=True, metadata={"a": "b"}).json
        self.assertEqual((queued["status"], queued["output"], queued["background"]), ("queued", [], True))
        ended = self.wait_for(queued)
        self.assertEqual(ended["output"][0]["content"], wanted["output"][0]["content"])
        self.assertEqual((ended["status"], ended["metadata"]), ("incomplete", {"a": "b"}))
        streamed = named_events(self.ask(seed=5, temperature=1, background=True, stream=True))
        response = folded(streamed)
        self.assertEqual(response["output"][0]["content"], wanted["output"][0]["content"])
        self.assertEqual(self.get("/v1/responses/" + response["id"]), response)
        self.assertEqual(self.server.post(f"/v1/responses/{response['id']}/cancel", "").status, 400)
        self.assertEqual(self.server.post(f"/v1/responses/{wanted['id']}/cancel", "").status, 400)

    def test_a_reader_who_left_comes_back(self):
        raw = self.server.open_stream("/v1/responses", {"input": "Hi", "max_output_tokens": 400, "seed": 1, "background": True, "stream": True,
                                                        "ignore_eos": True})
        data = b""
        while data.count(b"event: response.output_text.delta") < 3:
            data += raw.recv(4096)
        raw.close()
        created = json.loads(data.split(b"data: ", 1)[1].split(b"\n", 1)[0])["response"]
        rest = named_events(self.server.get(f"/v1/responses/{created['id']}?stream=true&starting_after=4"))
        self.assertEqual(rest[0]["sequence_number"], 5)
        self.assertEqual(rest[-1]["type"], "response.incomplete")
        all_of_it = named_events(self.server.get(f"/v1/responses/{created['id']}?stream=true"))
        self.assertEqual(all_of_it[5:], rest)
        self.assertEqual(folded(all_of_it)["usage"]["output_tokens"], 400)

    def test_what_runs_in_the_background_can_be_cancelled(self):
        queued = self.ask(max_output_tokens=450, ignore_eos=True, background=True).json
        reply = self.server.post(f"/v1/responses/{queued['id']}/cancel", "")
        if reply.status == 400:  # it was quicker
            return self.assertEqual(self.wait_for(queued)["status"], "incomplete")
        self.assertEqual(reply.json["status"], "cancelled")
        self.assertEqual(self.server.post(f"/v1/responses/{queued['id']}/cancel", "").json["status"], "cancelled")
        self.assertEqual(self.get("/v1/responses/" + queued["id"])["status"], "cancelled")
        self.server.wait_metric("sglang:num_running_reqs", 0)

    def test_what_is_refused_names_the_field(self):
        text = {"role": "user", "content": "x"}
        for more, field in (({"input": None}, "input"), ({"input": 3}, "input"), ({"input": [{"type": "computer_call"}]}, "input[0].type"),
                            ({"input": [text, {"role": "tool", "content": ""}]}, "input[1].role"),
                            ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input[0].content[0]"),
                            ({"input": [{"type": "function_call_output", "output": ""}]}, "input[0].call_id"),
                            ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
                            ({"tools": FUNCTIONS, "tool_choice": {"type": "file_search"}}, "tool_choice.type"),
                            ({"tool_choice": "required"}, "tool_choice"), ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
                            ({"reasoning": {"effort": "hard"}}, "reasoning.effort"), ({"text": {"verbosity": "loud"}}, "text.verbosity"),
                            ({"service_tier": "gold"}, "service_tier"), ({"max_reasoning_tokens": -2}, "max_reasoning_tokens"), ({"include": ["all"]}, "include[0]"),
                            ({"truncation": "auto"}, "truncation"), ({"prompt": {"id": "p"}}, "prompt"),
                            ({"background": True, "store": False}, "background"), ({"metadata": {"a": 1}}, "metadata"),
                            ({"max_output_tokens": 0}, "max_output_tokens"), ({"temperature": -1}, "temperature"), ({"n": 2}, "n"),
                            ({"top_logprobs": 21}, "top_logprobs"), ({"response_schema": {"type": "object"}}, "response_schema"),
                            ({"previous_response_id": "resp_1", "conversation": "conv_1"}, "previous_response_id")):
            error = self.ask(status=400, **more).json["error"]
            self.assertEqual((error["param"], error["type"]), (field, "invalid_request_error"), (more, error))
        self.ask(status=404, conversation="conv_1")
        self.ask(status=404, model="other")
        self.ask(status=404, input=[{"type": "item_reference", "id": "msg_x"}])
        self.assertEqual(self.ask(status=400, input="long " * 600).json["error"]["code"], "context_length_exceeded")
        self.assertEqual(self.server.post("/v1/responses", "{}", headers={"Content-Type": "text/plain"}).status, 415)

    def test_a_conversation_grows_by_what_is_said_in_it(self):
        made = self.server.post("/v1/conversations", {"metadata": {"topic": "x"}, "items": [{"role": "system", "content": "Be brief."}]}).json
        self.assertEqual((made["object"], made["metadata"]), ("conversation", {"topic": "x"}))
        path = "/v1/conversations/" + made["id"]
        self.assertEqual(self.get(path), made)
        first = self.ask(conversation=made["id"], input="One", logit_bias=PLAIN).json
        self.assertEqual(first["conversation"], {"id": made["id"]})
        second = self.ask(conversation={"id": made["id"]}, input="Two").json
        items = self.get(path + "/items?order=asc")["data"]
        said = [first["output"][0]["content"][0]["text"], second["output"][0]["content"][0]["text"]]
        self.assertEqual([i["content"][0]["text"] for i in items], ["Be brief.", "One", said[0], "Two", said[1]])
        by_hand = self.ask("/v1/responses/input_tokens", instructions="Be brief.", input=[
            {"role": "user", "content": "One"}, {"role": "assistant", "content": said[0]}, {"role": "user", "content": "Two"}])
        cached = second["usage"]["input_tokens_details"]["cached_tokens"]
        self.assertGreaterEqual(cached, first["usage"]["total_tokens"] - 1)
        self.assertLessEqual(abs(by_hand.json["input_tokens"] - second["usage"]["input_tokens"]), first["usage"]["output_tokens"])
        self.assertEqual(self.get(f"{path}/items/{items[1]['id']}"), items[1])
        self.assertEqual(self.server.request("DELETE", f"{path}/items/{items[1]['id']}").json, made)
        self.get(f"{path}/items/{items[1]['id']}", 404)
        added = self.server.post(path + "/items", {"items": [{"role": "user", "content": "Three"}]}).json
        self.assertEqual(self.get(path + "/items?limit=1")["data"], added["data"])
        self.assertEqual(self.server.post(path, {"metadata": {"topic": "y"}}).json["metadata"], {"topic": "y"})
        self.assertEqual(self.server.request("DELETE", path).json, {"id": made["id"], "object": "conversation.deleted", "deleted": True})
        self.get(path, 404)
        self.ask(status=404, conversation=made["id"])

    @unittest.skipIf(openai is None, "the openai client is not installed")
    def test_openais_client_streams_goes_on_and_reads_back(self):
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="any", max_retries=0)
        asked = {"model": "default", "input": "Hi", "temperature": 0, "max_output_tokens": 20}
        whole = client.responses.create(**asked)
        with client.responses.stream(**asked) as stream:
            events = list(stream)
        self.assertEqual(events[-1].response.output_text, whole.output_text)
        self.assertEqual((events[0].type, events[-1].type), ("response.created", "response.incomplete"))
        form = {"format": {"type": "json_schema", "name": "city", "schema": CITY, "strict": True}}
        with client.responses.stream(**{**asked, "max_output_tokens": 100}, text=form) as stream:
            final = stream.get_final_response()
        self.assertIn(json.loads(final.output_text)["city"], ("Rome", "Oslo"))
        following = client.responses.create(model="default", input="More", previous_response_id=whole.id, max_output_tokens=5)
        self.assertEqual(client.responses.retrieve(following.id).output_text, following.output_text)
        items = client.responses.input_items.list(following.id)
        self.assertEqual([item.content[0].text for item in items], ["More"])
        self.assertEqual(client.responses.input_tokens.count(model="default", input="Hi").input_tokens, whole.usage.input_tokens)
        queued = client.responses.create(**asked, background=True)
        self.assertIn(queued.status, ("queued", "in_progress"))
        while queued.status in ("queued", "in_progress"):
            queued = client.responses.retrieve(queued.id)
        self.assertEqual(queued.output_text, whole.output_text)
        call = client.responses.create(model="default", input="?", tools=FUNCTIONS, tool_choice="required", max_output_tokens=300).output[0]
        check_call(self, call.name, call.arguments)
        conversation = client.conversations.create(items=[{"type": "message", "role": "user", "content": "a"}])
        client.responses.create(**asked, conversation=conversation.id)
        self.assertEqual(len(client.conversations.items.list(conversation.id).data), 3)
        self.assertTrue(client.conversations.delete(conversation.id).deleted)
        client.responses.delete(whole.id)
        with self.assertRaises(openai.NotFoundError):
            client.responses.retrieve(whole.id)
        with self.assertRaises(openai.BadRequestError):
            client.responses.create(model="default", input="?", tools=[{"type": "web_search"}])


class Thinking(ResponsesCase):
    def test_thoughts_are_an_item_of_their_own(self):
        with tempfile.TemporaryDirectory() as folder, Server("--reasoning-parser", "qwen3", "--data-dir", folder + "/data",
                                                             model=thinking_model(folder)) as server:
            for seed in range(1, 4):
                more = {"temperature": 1, "seed": seed, "max_output_tokens": 200, "logit_bias": THINKS,
                        "text": {"format": {"type": "json_schema", "name": "city", "schema": CITY, "strict": True}}}
                whole = self.ask(server=server, **more).json
                self.assertEqual(without_ids(folded(named_events(self.ask(server=server, stream=True, **more)))), without_ids(whole))
                kinds = [item["type"] for item in whole["output"]]
                self.assertIn(kinds, (["reasoning", "message"], ["message"]))
                self.assertGreater(whole["usage"]["output_tokens_details"]["reasoning_tokens"], 0)
                self.assertIn(json.loads(whole["output"][-1]["content"][0]["text"])["city"], ("Rome", "Oslo"))
                self.ask(server=server, previous_response_id=whole["id"], input="And?")
                self.ask(server=server, input=[{"role": "user", "content": "x"}, *whole["output"], {"role": "user", "content": "And?"}])


class Keys(ResponsesCase):
    FLAGS = ("--api-key", "one", "--api-key", "two")

    def test_what_one_key_made_another_does_not_see(self):
        def call(method, path, key, body=None):
            return self.server.request(method, path, body, headers={"Authorization": "Bearer " + key})

        response = call("POST", "/v1/responses", "one", {"input": "Hi", "max_output_tokens": 5}).json
        conversation = call("POST", "/v1/conversations", "one", {}).json
        item = call("GET", f"/v1/responses/{response['id']}/input_items", "one").json["data"][0]["id"]
        for method, path, body in (("GET", f"/v1/responses/{response['id']}", None), ("DELETE", f"/v1/responses/{response['id']}", None),
                                   ("GET", f"/v1/responses/{response['id']}/input_items", None),
                                   ("POST", "/v1/responses", {"input": "x", "previous_response_id": response["id"]}),
                                   ("POST", "/v1/responses", {"input": [{"type": "item_reference", "id": item}]}),
                                   ("POST", "/v1/responses", {"input": "x", "conversation": conversation["id"]}),
                                   ("GET", f"/v1/conversations/{conversation['id']}", None),
                                   ("DELETE", f"/v1/conversations/{conversation['id']}", None)):
            self.assertEqual(call(method, path, "two", body).status, 404, (method, path))
        self.assertEqual(call("GET", f"/v1/responses/{response['id']}", "one").json, response)
        self.assertEqual(call("GET", f"/v1/responses/{response['id']}", "three").status, 401)


class Store(ResponsesCase):
    def start(self, *flags):
        server = Server("--chat-template", SHOWS, "--data-dir", self.folder.name + "/kept", *flags)
        self.addCleanup(server.kill)
        return server

    def test_nothing_is_made_before_something_is_stored(self):
        folder = pathlib.Path(self.folder.name, "kept")
        server = self.start()
        self.ask(server=server, store=False)
        self.assertFalse(folder.exists())
        self.ask(server=server)
        self.assertTrue((folder / "espalier.db").exists())

    def test_a_folder_that_cannot_be_written_is_named(self):
        place = pathlib.Path(self.folder.name, "file")
        place.write_text("")
        with Server("--data-dir", str(place)) as server:
            error = self.ask(server=server, status=503).json["error"]
            self.assertEqual(error["code"], "storage_unavailable")
            self.assertIn("--data-dir", error["message"])
            self.ask(server=server, store=False)
        with Server("--data-dir", self.folder.name + "/data") as server:  # self.server has it, once it stored
            self.ask()
            self.assertIn("another server", self.ask(server=server, status=503).json["error"]["message"])
        with Server("--data-dir", self.folder.name + "/small", "--max-data", "1") as server:
            for _ in range(200):
                reply = server.post("/v1/responses", {"input": "x", "max_output_tokens": 1, "user": "u" * 1000, "instructions": "i",
                                                      "metadata": {str(i): "v" * 512 for i in range(16)}})
                if reply.status != 200:
                    break
            self.assertEqual(reply.json["error"]["code"], "storage_full")

    def test_what_was_acknowledged_outlives_a_kill(self):
        server = self.start()
        kept = []
        for i in range(3):
            kept.append(self.ask(server=server, input=f"Number {i}").json)
        conversation = server.post("/v1/conversations", {"items": [{"role": "user", "content": "a"}]}).json
        kept.append(folded(named_events(self.ask(server=server, stream=True, conversation=conversation["id"]))))
        running = [self.ask(server=server, background=True, max_output_tokens=300, seed=7, temperature=1, ignore_eos=True, stream=False).json
                   for _ in range(4)]
        server.process.send_signal(signal.SIGKILL)  # right behind the last answer
        server.process.wait()
        server = self.start()
        for response in kept:
            self.assertEqual(server.get("/v1/responses/" + response["id"]).json, response)
        self.assertEqual(len(server.get(f"/v1/conversations/{conversation['id']}/items").json["data"]), 3)
        following = self.ask(server=server, input="And?", previous_response_id=kept[0]["id"]).json
        self.assertGreater(following["usage"]["input_tokens"], kept[0]["usage"]["total_tokens"])
        wanted = self.ask(server=server, max_output_tokens=300, seed=7, temperature=1, ignore_eos=True).json["output"][0]["content"]
        for response in running:  # what was taken on is made, as it would have been
            ended = self.wait_for(response, server)
            self.assertEqual((ended["status"], ended["output"][0]["content"]), ("incomplete", wanted))
            self.assertEqual(ended["created_at"], response["created_at"])


if __name__ == "__main__":
    unittest.main()
