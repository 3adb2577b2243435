"""/v1: completions and chat, streamed and whole, errors, and the official client."""
import unittest

from harness import GOLDEN, Server, ServerCase

try:
    import openai
except ImportError:
    openai = None

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello there"}]
SEEDED = {"temperature": 1, "seed": 5, "max_tokens": 20, "ignore_eos": True}


def folded(events, chat):
    """The choices that a stream's chunks add up to."""
    choices = {}
    for event in events:
        if event == "[DONE]":
            continue
        for piece in event["choices"]:
            choice = choices.setdefault(piece["index"], {"text": "", "logprobs": {}})
            choice["text"] += (piece["delta"].get("content") or "") if chat else piece["text"]
            for name, values in (piece["logprobs"] or {}).items():
                choice["logprobs"].setdefault(name, []).extend(values or [])
            if piece["finish_reason"]:
                choice["finish_reason"] = piece["finish_reason"]
    return choices


class OpenAi(ServerCase):
    FLAGS = ("--served-model-name", "toy")

    def test_models_are_listed_and_unknown_ones_refused(self):
        listed = self.server.get("/v1/models").json
        self.assertEqual([card["id"] for card in listed["data"]], ["toy"])
        self.assertEqual(listed["data"][0]["max_model_len"], 512)
        self.assertEqual(self.server.get("/v1/models/toy").json["id"], "toy")
        for reply in (self.server.get("/v1/models/nope"), self.server.post("/v1/completions", {"model": "nope", "prompt": "a"})):
            self.assertEqual(reply.status, 404)
            self.assertEqual(reply.json["error"]["code"], "model_not_found")
            self.assertIn("toy", reply.json["error"]["message"])
        for name in ("default", "", "toy"):
            self.assertEqual(self.server.post("/v1/completions", {"model": name, "prompt": "a", "max_tokens": 1}).status, 200)

    def test_greedy_completions_are_the_goldens(self):
        for prompt in GOLDEN["prompts"]:
            body = {"prompt": prompt["tokens"], "temperature": 0, "max_tokens": 32, "ignore_eos": True, "return_token_ids": True}
            reply = self.server.post("/v1/completions", body).json
            self.assertEqual(reply["choices"][0]["token_ids"], prompt["greedy"])
            self.assertEqual(reply["usage"]["prompt_tokens"], len(prompt["tokens"]))
            self.assertEqual(reply["usage"]["completion_tokens"], 32)
            self.assertIn("cached_tokens", reply["usage"]["prompt_tokens_details"])
            self.assertEqual(reply["usage"]["completion_tokens_details"], {"reasoning_tokens": 0})

    def test_streams_concatenate_to_the_whole_reply(self):
        for path, chat, body in (
                ("/v1/completions", False, {"prompt": ["one", "two"], "n": 2, "logprobs": 2, **SEEDED}),
                ("/v1/completions", False, {"prompt": "echo me", "echo": True, "logprobs": 1, **SEEDED}),
                ("/v1/completions", False, {"prompt": "stop", "stop": ["e", "zz"], "logprobs": 0, **SEEDED}),
                ("/v1/chat/completions", True, {"messages": CHAT, "n": 3, "logprobs": True, "top_logprobs": 3, **SEEDED})):
            whole = self.server.post(path, body)
            self.assertEqual(whole.status, 200, whole.body)
            events = self.server.post(path, {**body, "stream": True, "stream_options": {"include_usage": True}}).events
            self.assertEqual(events[-1], "[DONE]")
            choices = folded(events, chat)
            for choice in whole.json["choices"]:
                streamed = choices[choice["index"]]
                self.assertEqual(streamed["text"], choice["message"]["content"] if chat else choice["text"])
                self.assertEqual(streamed["finish_reason"], choice["finish_reason"])
                for name, values in choice["logprobs"].items():
                    self.assertEqual(streamed["logprobs"][name], values or [], name)
            self.assertEqual(events[-2]["choices"], [])
            for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
                self.assertEqual(events[-2]["usage"][key], whole.json["usage"][key])

    def test_chat_streams_begin_with_the_role(self):
        events = self.server.post("/v1/chat/completions", {"messages": CHAT, "stream": True, "max_tokens": 3}).events
        first = events[0]["choices"][0]
        self.assertEqual(first["delta"], {"role": "assistant", "content": "", "refusal": None})
        self.assertEqual(events[0]["object"], "chat.completion.chunk")
        self.assertEqual(len({e["id"] for e in events[:-1]}), 1)

    def test_continuous_usage_comes_with_every_chunk(self):
        options = {"include_usage": True, "continuous_usage_stats": True}
        events = self.server.post("/v1/completions", {"prompt": "a", "stream": True, "stream_options": options, **SEEDED}).events
        counts = [e["usage"]["completion_tokens"] for e in events[:-1]]
        self.assertEqual(counts, sorted(counts))
        self.assertEqual(counts[-1], 20)

    def test_echo_reports_the_prompts_logprobs(self):
        prompt = next(p for p in GOLDEN["prompts"] if p.get("prompt_logprobs"))
        body = {"prompt": prompt["tokens"], "echo": True, "logprobs": 1, "max_tokens": 0, "temperature": 0}
        logprobs = self.server.post("/v1/completions", body).json["choices"][0]["logprobs"]
        self.assertIsNone(logprobs["token_logprobs"][0])
        for got, expected in zip(logprobs["token_logprobs"][1:], prompt["prompt_logprobs"][1:]):
            self.assertAlmostEqual(got, expected, delta=2e-3)

    def test_a_chunk_with_logprobs_has_their_text_too(self):
        """Clients pass over chunks that say nothing; the last one ends the choice and may."""
        messages = [{"role": "user", "content": "hello there"}]
        for path, body in (("/v1/chat/completions", {"messages": messages, "logprobs": True}), ("/v1/completions", {"prompt": "hello", "logprobs": 1})):
            for seed in range(1, 6):  # the model writes broken characters: their text comes later than their tokens
                asked = {**body, "temperature": 1, "seed": seed, "max_tokens": 30}
                whole = self.server.post(path, asked).json["choices"][0]["logprobs"]
                told, held = {}, 0
                events = [e for e in self.server.post(path, {**asked, "stream": True}).events if e != "[DONE]"]
                for choice in (e["choices"][0] for e in events):
                    lists = {name: values for name, values in (choice["logprobs"] or {}).items() if values}
                    for name, values in lists.items():
                        told.setdefault(name, []).extend(values)
                    held += max((len(values) for values in lists.values()), default=0) > 1
                    if lists and choice["finish_reason"] is None:
                        self.assertTrue(choice.get("text") or choice["delta"].get("content"), choice)
                for name, values in told.items():
                    self.assertEqual(values, whole[name], name)
                self.assertEqual(set(told), {name for name, values in whole.items() if values})
                self.assertGreater(held, 0)

    def test_harnesses_are_told_the_tokenizer(self):
        told = self.server.get("/tokenizer_info").json
        self.assertEqual((told["eos_token"], told["bos_token"], told["model_max_length"]), ("<|eos|>", "<|bos|>", 512))
        self.assertIn("add_generation_prompt", told["chat_template"])
        end = self.server.post("/tokenize", {"prompt": told["eos_token"], "add_special_tokens": False}).json["tokens"]
        self.assertEqual(len(end), 1)
        back = self.server.post("/detokenize", {"tokens": end}).json
        self.assertEqual((back["text"], back["prompt"]), ("", "<|eos|>"))

    def test_a_seed_decides_the_text_whatever_else_runs(self):
        body = {"prompt": "seeded", **SEEDED}
        first = self.server.post("/v1/completions", body).json["choices"][0]["text"]
        batch = self.server.post("/v1/completions", {**body, "prompt": ["x", "seeded", "y"]}).json["choices"]
        self.assertEqual(batch[1]["text"], first)

    def test_stop_strings_and_matched_stop(self):
        free = self.server.post("/v1/completions", {"prompt": "q", **SEEDED}).json["choices"][0]["text"]
        stop = free[4:6]
        choice = self.server.post("/v1/completions", {"prompt": "q", "stop": stop, **SEEDED}).json["choices"][0]
        self.assertEqual(choice["text"], free[:free.index(stop)])
        self.assertEqual((choice["finish_reason"], choice["matched_stop"]), ("stop", stop))

    def test_chat_templates_are_rendered_and_tokenised_alike(self):
        rendered = self.server.post("/apply-template", {"messages": CHAT}).json["prompt"]
        self.assertTrue(rendered.endswith("<|assistant|>"), rendered)
        tokens = self.server.post("/tokenize", {"messages": CHAT}).json
        again = self.server.post("/tokenize", {"prompt": rendered, "add_special_tokens": False}).json
        self.assertEqual(tokens["tokens"], again["tokens"])
        count = self.server.post("/v1/chat/completions/input_tokens", {"messages": CHAT}).json["input_tokens"]
        self.assertEqual(count, tokens["count"])
        usage = self.server.post("/v1/chat/completions", {"messages": CHAT, "max_tokens": 1}).json["usage"]
        self.assertEqual(usage["prompt_tokens"], count)
        back = self.server.post("/detokenize", {"tokens": again["tokens"], "skip_special_tokens": False}).json["text"]
        self.assertEqual(back, rendered)

    def test_refusals_have_openais_shape_and_name_the_field(self):
        chat = {"messages": CHAT}
        cases = [("/v1/completions", {"prompt": "a", "temperature": 101}, 400, "temperature"),
                 ("/v1/completions", {"prompt": "a", "max_tokens": 0}, 400, "max_tokens"),
                 ("/v1/completions", {"prompt": ""}, 400, "prompt"),
                 ("/v1/completions", {"prompt": "a " * 3000}, 400, "prompt"),
                 ("/v1/completions", {"prompt": "a", "suffix": "b"}, 400, "suffix"),
                 ("/v1/completions", {"prompt": "a", "guided_json": {}}, 200, None),
                 ("/v1/completions", {"prompt": "a", "guided_json": {"type": "thing"}}, 400, "guided_json"),
                 ("/v1/chat/completions", {**chat, "response_format": {"type": "xml"}}, 400, "response_format.type"),
                 ("/v1/chat/completions", {**chat, "top_logprobs": 21, "logprobs": True}, 400, "top_logprobs"),
                 ("/v1/chat/completions", {**chat, "tool_choice": "required"}, 400, "tool_choice"),
                 ("/v1/chat/completions", {**chat, "modalities": ["text", "audio"]}, 400, "modalities"),
                 ("/v1/chat/completions", {**chat, "web_search_options": {}}, 400, "web_search_options"),
                 ("/v1/chat/completions", {**chat, "reasoning_effort": "enormous"}, 400, "reasoning_effort"),
                 ("/v1/chat/completions", {**chat, "truncation": "auto"}, 400, "truncation"),
                 ("/v1/chat/completions", {**chat, "stop_token_ids": [320]}, 400, "stop_token_ids"),
                 ("/v1/chat/completions", {**chat, "min_tokens": 9, "max_tokens": 5}, 400, "min_tokens"),
                 ("/v1/chat/completions", {"input_ids": "abc"}, 400, "input_ids"),
                 ("/v1/chat/completions", {"input_ids": [320]}, 400, "input_ids"),
                 ("/v1/chat/completions", {**chat, "seed": 2 ** 64}, 400, "seed"),
                 ("/v1/completions", {"prompt": "a", "user": 5}, 400, "user"),
                 ("/v1/completions", {"prompt": "a", "n": 10 ** 20}, 400, "n"),
                 ("/v1/completions", {"prompt": "a", "best_of": 2, "n": 3}, 400, "best_of"),
                 ("/v1/completions", {"prompt": ["a", "a " * 3000]}, 400, "prompt[1]"),
                 ("/v1/chat/completions", {"messages": []}, 400, "messages"),
                 ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
                  400, "messages[0].content[0]"),
                 ("/v1/chat/completions", {**chat, "n": "2"}, 400, "n")]
        for path, body, status, field in cases:
            for stream in (False, True):
                reply = self.server.post(path, {**body, "stream": stream})
                self.assertEqual(reply.status, status, (body, reply.body))
                if status == 200:
                    continue
                error = reply.json["error"]
                self.assertEqual(error["param"], field, reply.body)
                self.assertEqual(error["type"], "invalid_request_error")
                self.assertEqual(reply.json["object"], "error")
                self.assertEqual(reply.json["message"], error["message"])

    def test_the_content_type_must_be_json(self):
        reply = self.server.post("/v1/completions", b'{"prompt":"a"}', headers={"Content-Type": "text/plain"})
        self.assertEqual(reply.status, 415)

    def test_replies_carry_ids_and_timings(self):
        reply = self.server.post("/v1/completions", {"prompt": "a", "timings": True, **SEEDED}, headers={"x-request-id": "abc-1"})
        self.assertEqual(reply.headers["x-request-id"], "abc-1")
        self.assertEqual(reply.json["id"], "cmpl-abc-1")
        self.assertRegex(reply.headers["server-timing"], r"queue;dur=[\d.]+, prefill;dur=[\d.]+, decode;dur=[\d.]+")
        self.assertEqual(set(reply.json["timings"]["cache"]), {"reused", "prompt", "miss_reason"})

    def test_messages_have_a_refusal_and_replies_a_fingerprint(self):
        reply = self.server.post("/v1/chat/completions", {"messages": CHAT, "max_tokens": 2}).json
        self.assertIsNone(reply["choices"][0]["message"]["refusal"])
        self.assertRegex(reply["system_fingerprint"], r"^fp_[0-9a-f]{10}$")
        events = self.server.post("/v1/chat/completions", {"messages": CHAT, "max_tokens": 2, "stream": True}).events
        self.assertEqual({e["system_fingerprint"] for e in events[:-1]}, {reply["system_fingerprint"]})

    def test_a_prediction_changes_the_time_and_not_the_text(self):
        body = {"messages": [{"role": "user", "content": "Count."}], "temperature": 0, "max_tokens": 120, "ignore_eos": True}
        plain = self.server.post("/v1/chat/completions", body).json
        self.assertNotIn("accepted_prediction_tokens", plain["usage"]["completion_tokens_details"])
        text = plain["choices"][0]["message"]["content"]
        accepted = 0
        for content in (text, [{"type": "text", "text": text[:40]}, {"type": "text", "text": text[60:]}], "nothing of it", ""):
            reply = self.server.post("/v1/chat/completions", {**body, "prediction": {"type": "content", "content": content}}).json
            self.assertEqual(reply["choices"][0]["message"], plain["choices"][0]["message"])
            details = reply["usage"]["completion_tokens_details"]
            self.assertGreaterEqual(details["rejected_prediction_tokens"], 0)
            accepted += details["accepted_prediction_tokens"]
        self.assertGreaterEqual(accepted, 0)
        refused = self.server.post("/v1/chat/completions", {**body, "prediction": {"type": "image", "content": "a"}})
        self.assertEqual((refused.status, refused.json["error"]["param"]), (400, "prediction.type"))

    def test_a_service_tier_is_told_back(self):
        for tier, told in (("auto", "default"), ("flex", "flex"), ("priority", "priority")):
            reply = self.server.post("/v1/completions", {"prompt": "a", "max_tokens": 2, "service_tier": tier})
            self.assertEqual((reply.status, reply.json["service_tier"]), (200, told))
        refused = self.server.post("/v1/completions", {"prompt": "a", "service_tier": "best"})
        self.assertEqual((refused.status, refused.json["error"]["param"]), (400, "service_tier"))

    def test_best_of_tells_the_likeliest_of_many(self):
        body = {"prompt": ["one", "two"], "max_tokens": 6, "seed": 3, "ignore_eos": True, "logprobs": 0, "return_token_ids": True}
        everything = self.server.post("/v1/completions", {**body, "n": 6}).json["choices"]
        best = self.server.post("/v1/completions", {**body, "n": 2, "best_of": 6})
        self.assertEqual(best.status, 200, best.body)
        expected = []
        for prompt in range(2):
            of_prompt = everything[6 * prompt:6 * prompt + 6]
            of_prompt.sort(key=lambda c: -sum(c["logprobs"]["token_logprobs"]))  # of equal length: sums rank as means do
            expected += [c["token_ids"] for c in of_prompt[:2]]
        self.assertEqual([c["token_ids"] for c in best.json["choices"]], expected)
        self.assertEqual([c["index"] for c in best.json["choices"]], [0, 1, 2, 3])
        self.assertEqual(best.json["usage"]["completion_tokens"], 2 * 6 * 6)
        plain = self.server.post("/v1/completions", {"prompt": "one", "max_tokens": 3, "n": 1, "best_of": 4}).json["choices"]
        self.assertEqual(len(plain), 1)
        self.assertIsNone(plain[0]["logprobs"])
        streamed = self.server.post("/v1/completions", {**body, "n": 1, "best_of": 2, "stream": True})
        self.assertEqual((streamed.status, streamed.json["error"]["param"]), (400, "best_of"))

    def test_tools_that_the_template_leaves_out_are_told(self):
        body = {"messages": CHAT, "max_tokens": 1, "tools": [{"type": "function", "function": {"name": "f"}}]}
        knows = self.server.post("/apply-template", {"messages": CHAT}).json != self.server.post("/apply-template", body).json
        for stream in (False, True):
            reply = self.server.post("/v1/chat/completions", {**body, "stream": stream})
            self.assertEqual("warning" in reply.headers, not knows)
        self.assertNotIn("warning", self.server.post("/v1/chat/completions", {"messages": CHAT, "max_tokens": 1}).headers)

    @unittest.skipIf(openai is None, "the openai client is not installed")
    def test_the_official_client_works(self):
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none", max_retries=0)
        self.assertEqual(client.models.list().data[0].id, "toy")
        whole = client.chat.completions.create(model="toy", messages=CHAT, seed=3, max_completion_tokens=12, logprobs=True,
                                               top_logprobs=2, extra_body={"ignore_eos": True})
        self.assertEqual(len(whole.choices[0].logprobs.content), 12)
        pieces = list(client.chat.completions.create(model="toy", messages=CHAT, seed=3, max_completion_tokens=12, stream=True,
                                                     stream_options={"include_usage": True}, extra_body={"ignore_eos": True}))
        text = "".join(p.choices[0].delta.content or "" for p in pieces if p.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(pieces[-1].usage.completion_tokens, 12)
        self.assertEqual(pieces[-1].usage.prompt_tokens_details.cached_tokens, whole.usage.prompt_tokens - 1)
        legacy = client.completions.create(model="toy", prompt="x", max_tokens=4, logprobs=2, n=2, seed=1)
        self.assertEqual([c.index for c in legacy.choices], [0, 1])
        with self.assertRaises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="toy", messages=CHAT, temperature=1000)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.NotFoundError):
            client.chat.completions.create(model="nope", messages=CHAT)


class TokensOnly(unittest.TestCase):
    """A model without a tokenizer serves ids; text is refused in a sentence."""

    def test_ids_work_and_text_is_refused(self):
        with Server("--skip-tokenizer-init") as server:
            prompt = GOLDEN["prompts"][0]
            reply = server.generate(input_ids=prompt["tokens"], sampling_params={"temperature": 0, "max_new_tokens": 4, "ignore_eos": True})
            self.assertEqual(reply["output_ids"], prompt["greedy"][:4])
            self.assertNotIn("text", reply)
            for path, body in (("/generate", {"text": "a"}), ("/v1/completions", {"prompt": "a"}), ("/tokenize", {"prompt": "a"}),
                               ("/v1/chat/completions", {"messages": CHAT}),
                               ("/generate", {"input_ids": [1], "sampling_params": {"stop": "x"}})):
                refused = server.post(path, body)
                self.assertEqual(refused.status, 400, refused.body)
                self.assertIn("tokenizer", refused.json["error"]["message"])
            reply = server.post("/v1/completions", {"prompt": [1], "max_tokens": 2, "return_token_ids": True, "logprobs": 1})
            self.assertEqual(len(reply.json["choices"][0]["token_ids"]), 2)


if __name__ == "__main__":
    unittest.main()
