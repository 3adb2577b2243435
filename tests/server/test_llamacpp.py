"""llama.cpp's dialect: /completion, /infill, /tokenize and /detokenize with its fields, /props, /slots."""
import unittest

from harness import Server, ServerCase
from infill_model import MIDDLE, PREFIX, SUFFIX, infill_model
from test_tools import SHOWS

TIMES = ("timings",)


def folded(events):
    """The objects that a stream adds up to, by index."""
    objects = {}
    for event in events:
        whole = objects.setdefault(event["index"], {"content": "", "tokens": [], "completion_probabilities": []})
        content = whole["content"] + event.pop("content")
        tokens = whole["tokens"] + event.pop("tokens")
        entries = whole["completion_probabilities"] + event.pop("completion_probabilities", [])
        assert not whole.get("stop"), "an event behind the last"
        whole.update(event, content=content, tokens=tokens, completion_probabilities=entries)
    return [objects[i] for i in sorted(objects)]


def comparable(reply):
    reply = {name: value for name, value in reply.items() if name not in TIMES}
    reply["generation_settings"] = {k: v for k, v in reply["generation_settings"].items() if k != "stream"}
    reply.setdefault("completion_probabilities", [])
    return reply


class Completion(ServerCase):
    FLAGS = ("--chat-template", SHOWS)

    def ask(self, path="/completion", status=200, **body):
        reply = self.server.post(path, {"temperature": 0, "n_predict": 12, **body})
        self.assertEqual(reply.status, status, reply.body)
        return reply

    def test_a_stream_adds_up_to_the_whole_reply(self):
        for more in ({}, {"n_probs": 3}, {"stop": ["a", "e"]}, {"n_predict": 0}, {"seed": 7, "temperature": 1, "n_cmpl": 3},
                     {"prompt": ["one", [40, 41, 42], [43, " two ", 44]]}, {"logit_bias": [[65, 90.5]]},
                     {"grammar": 'root ::= "yes" | "no"'}, {"json_schema": {"type": "integer"}}):
            asked = {"prompt": "Hello there", "return_tokens": True, **more}
            whole = self.ask(**asked).json
            stream = self.ask(stream=True, **asked)
            self.assertTrue(stream.headers["content-type"].startswith("text/event-stream"))
            streamed = folded(stream.events)
            self.assertEqual([comparable(r) for r in streamed],
                             [comparable(r) for r in (whole if isinstance(whole, list) else [whole])])

    def test_the_end_is_told(self):
        text = self.ask(prompt="Hello there").json
        self.assertEqual((text["stop_type"], text["stopping_word"], text["stop"]), ("limit", "", True))
        self.assertEqual(text["tokens_predicted"], 12)
        self.assertEqual(text["tokens_cached"], text["tokens_evaluated"] + 11)
        stop = text["content"][3:5]
        cut = self.ask(prompt="Hello there", stop=[stop]).json
        self.assertEqual((cut["stop_type"], cut["stopping_word"]), ("word", stop))
        self.assertEqual(cut["content"], text["content"][:text["content"].index(stop)])
        ended = self.ask(prompt="Hello there", grammar='root ::= "a"').json
        self.assertEqual((ended["stop_type"], ended["content"]), ("eos", "a"))
        self.assertFalse(text["truncated"])
        full = self.ask(prompt="Hello there", n_predict=-1, ignore_eos=True).json
        self.assertEqual((full["truncated"], full["stop_type"]), (True, "limit"))

    def test_timings_and_what_the_cache_had(self):
        first = self.ask(prompt="a prompt of its own, read once").json
        again = self.ask(prompt="a prompt of its own, read once").json
        self.assertEqual(first["content"], again["content"])
        times = again["timings"]
        self.assertEqual(times["cache_n"] + times["prompt_n"], again["tokens_evaluated"])
        self.assertGreater(times["cache_n"], first["timings"]["cache_n"])
        self.assertEqual(times["predicted_n"], 12)
        self.assertGreater(times["predicted_per_second"], 0)
        each = self.ask(prompt="again", stream=True, timings_per_token=True).events
        self.assertTrue(all(event["timings"]["predicted_n"] == event["tokens_predicted"] for event in each))

    def test_prompts_of_texts_and_tokens_in_a_row(self):
        ids = self.server.post("/tokenize", {"content": "Hello there", "add_special": True}).json["tokens"]
        by_text, by_ids = self.ask(prompt="Hello there").json, self.ask(prompt=ids).json
        self.assertEqual(by_text["content"], by_ids["content"])
        self.assertEqual(by_text["tokens_evaluated"], len(ids))
        self.assertEqual(self.ask(prompt={"prompt_string": "Hello there"}).json["content"], by_text["content"])
        self.assertEqual(self.ask(prompt=["Hello there"]).json["content"], by_text["content"])
        mixed = self.ask(prompt=[[50, "b", 51], "Hello there"]).json
        self.assertEqual([r["index"] for r in mixed], [0, 1])
        self.assertEqual(mixed[1]["content"], by_text["content"])
        self.assertEqual(mixed[0]["tokens_evaluated"], 3)

    def test_the_same_prompt_is_the_same_everywhere(self):
        chat = [{"role": "user", "content": "Hi"}]
        prompt = self.server.post("/apply-template", {"messages": chat}).json["prompt"]
        ids = self.server.post("/tokenize", {"content": prompt}).json["tokens"]  # the template wants no begin token
        asked = {"messages": chat, "temperature": 0, "max_tokens": 12}
        self.assertEqual(self.server.post("/v1/chat/completions", asked).json["choices"][0]["message"]["content"],
                         self.ask(prompt=ids).json["content"])
        native = self.server.generate(text="Hello there", sampling_params={"temperature": 0, "max_new_tokens": 12})
        self.assertEqual(self.ask(prompt="Hello there").json["content"], native["text"])

    def test_response_fields_select_from_the_last_object(self):
        fields = ["content", "generation_settings/n_predict", "nowhere", "timings/cache_n"]
        reply = self.ask(prompt="Hello there", response_fields=fields).json
        self.assertEqual(sorted(reply), sorted(set(fields) - {"nowhere"}))
        self.assertEqual(reply["generation_settings/n_predict"], 12)

    def test_biases_in_every_form(self):
        first = self.ask(prompt="Hello there", n_predict=1, return_tokens=True).json["tokens"][0]
        for bias in ([[first, False]], {str(first): False}, [[first, -100]], [[first, -1e6]]):
            self.assertNotEqual(self.ask(prompt="Hello there", n_predict=1, return_tokens=True, logit_bias=bias).json["tokens"],
                                [first])
        for bias in ([["Q", 100]], {"Q": 100}, [["Q", 60], ["Q", 60]]):
            self.assertEqual(self.ask(prompt="Hello there", n_predict=1, logit_bias=bias).json["content"], "Q")

    def test_samplers_that_are_off_are_passed_over(self):
        neutral = {"typical_p": 1.0, "mirostat": 0, "mirostat_tau": 5, "dry_multiplier": 0, "xtc_probability": 0.0,
                   "top_n_sigma": -1, "dynatemp_range": 0, "min_keep": 0, "cache_prompt": True, "id_slot": 3, "n_keep": 5,
                   "repeat_last_n": 64, "t_max_predict_ms": 500, "n_indent": 2, "samplers": ["top_k", "top_p", "infill"]}
        plain, given = self.ask(prompt="Hello there").json, self.ask(prompt="Hello there", **neutral).json
        self.assertEqual(plain["content"], given["content"])
        self.assertEqual(given["id_slot"], 3)
        off = self.ask(prompt="Hello there", repeat_penalty=5, repeat_last_n=0).json
        self.assertEqual(plain["content"], off["content"])

    def test_hostile_bodies_are_refused_with_the_field(self):
        for body, field in (({}, "prompt"), ({"prompt": 5}, "prompt"), ({"prompt": [True]}, "prompt[0]"), ({"prompt": []}, "prompt"),
                            ({"prompt": [-1]}, "prompt[0]"), ({"prompt": [[1], [[2]]]}, "prompt[1][0]"),
                            ({"prompt": {"prompt_string": "a", "multimodal_data": ["x"]}}, "prompt.multimodal_data"),
                            ({"prompt": [99999999]}, "prompt"), ({"prompt": "a", "mirostat": 2}, "mirostat"),
                            ({"prompt": "a", "typical_p": 0.5}, "typical_p"), ({"prompt": "a", "n_probs": 21}, "n_probs"),
                            ({"prompt": "a", "samplers": ["nonsense"]}, "samplers"), ({"prompt": "a", "lora": [{"id": 0}]}, "lora"),
                            ({"prompt": "a", "logit_bias": [[1]]}, "logit_bias[0]"), ({"prompt": "a", "logit_bias": 3}, "logit_bias"),
                            ({"prompt": "a", "logit_bias": [[1, True]]}, "logit_bias[0][1]"),
                            ({"prompt": "a", "grammar": "root ::= ("}, "grammar"), ({"prompt": "a", "stop": [3]}, "stop"),
                            ({"prompt": "a", "post_sampling_probs": True}, "post_sampling_probs"),
                            ({"prompt": "a", "temperature": "1"}, "temperature"), ({"prompt": "a" * 100_000}, "prompt"),
                            ({"prompt": "a", "n_predict": 1.5}, "n_predict"), ({"prompt": ["a"] * 300}, "prompt"),
                            ({"prompt": "a", "image_data": [{"data": "x"}]}, "image_data")):
            reply = self.server.post("/completion", body)
            self.assertEqual(reply.status, 400, (body, reply.body))
            error = reply.json["error"]
            self.assertEqual((error["code"], error["type"]), (400, "invalid_request_error"))
            self.assertTrue((error["param"] or "").startswith(field.split("[")[0]), (field, error))
        self.assertEqual(self.ask(prompt="a", model="other", status=404).json["error"]["code"], 404)
        for data in (b"{", b"[1]", b"", b'{"prompt": "a", "prompt": "b"}', b"\xff"):
            self.assertEqual(self.server.request("POST", "/completion", body=data).status, 400)

    def test_a_model_without_marks_fills_nothing_in(self):
        reply = self.ask("/infill", input_prefix="a", input_suffix="b", status=400).json["error"]
        self.assertIn("fill in the middle", reply["message"])
        self.ask("/infill", input_prefix="a", status=400)
        for path in ("/embedding", "/embeddings", "/v1/embeddings"):
            self.assertEqual(self.server.post(path, {"input": "a", "content": "a"}).status, 400)

    def test_props_and_slots(self):
        props = self.server.get("/props").json
        self.assertEqual(props["total_slots"], len(self.server.get("/slots").json))
        self.assertEqual(props["default_generation_settings"]["n_ctx"], self.server.get("/slots").json[0]["n_ctx"])
        self.assertEqual(props["model_alias"], self.server.get("/v1/models").json["data"][0]["id"])
        self.assertEqual(self.server.get("/lora-adapters").json, [])
        self.assertEqual(self.server.post("/props", {}).status, 400)
        self.assertEqual(self.server.post("/slots/0?action=erase", {}).status, 400)


class Tokens(ServerCase):
    def test_texts_become_tokens_and_back(self):
        for text in ("Hello there", "", "w\u00f6rld \U0001f600", "<|eos|>"):
            plain = self.server.post("/tokenize", {"content": text}).json
            self.assertEqual(list(plain), ["tokens"])
            by_sglang = self.server.post("/tokenize", {"prompt": text, "add_special_tokens": False}).json
            self.assertEqual(plain["tokens"], by_sglang["tokens"])
            self.assertEqual(self.server.post("/detokenize", {"tokens": plain["tokens"]}).json["content"], text)
            begun = self.server.post("/tokenize", {"content": text, "add_special": True}).json["tokens"]
            self.assertEqual(begun, self.server.post("/tokenize", {"prompt": text}).json["tokens"])
            pieces = self.server.post("/tokenize", {"content": text, "with_pieces": True}).json["tokens"]
            self.assertEqual([p["id"] for p in pieces], plain["tokens"])
            joined = b"".join(p["piece"].encode() if isinstance(p["piece"], str) else bytes(p["piece"]) for p in pieces)
            self.assertEqual(joined.decode(), text)
        special, text = (self.server.post("/tokenize", {"content": "<|eos|>", "parse_special": p}).json["tokens"] for p in (True, False))
        self.assertEqual(len(special), 1)
        self.assertGreater(len(text), 1)
        self.assertEqual(self.server.post("/tokenize", {"content": [5, "ab"]}).json["tokens"][0], 5)
        for content in (5, {"a": 1}, [None], [-1], True):
            self.assertEqual(self.server.post("/tokenize", {"content": content}).status, 400, content)


class Infill(unittest.TestCase):
    def test_prompts_that_fill_in_are_the_same_in_every_dialect(self):
        with infill_model() as folder, Server(model=folder) as server:
            def prompt_of(**body):
                reply = server.post("/infill", {"n_predict": 4, "temperature": 0, **body})
                self.assertEqual(reply.status, 200, reply.body)
                return reply.json

            whole = prompt_of(input_prefix="def f(", input_suffix="return x")
            plain = f"{PREFIX}def f({SUFFIX}return x{MIDDLE}"
            self.assertEqual(whole["prompt"].removeprefix("<|bos|>"), plain)
            self.assertEqual(prompt_of(input_prefix="def ", prompt="f(", input_suffix="return x")["prompt"], whole["prompt"])
            extra = prompt_of(input_prefix="def f(", input_suffix="return x", input_extra=[{"filename": "a.py", "text": "import b\n"}])
            self.assertIn("import b\n", extra["prompt"])
            self.assertTrue(extra["prompt"].endswith(plain))
            marked = prompt_of(input_prefix=MIDDLE, input_suffix="")  # the client's text is no mark
            self.assertGreater(marked["tokens_evaluated"], 5)

            openai = server.post("/v1/completions", {"prompt": "def f(", "suffix": "return x", "max_tokens": 4, "temperature": 0}).json
            self.assertEqual(openai["choices"][0]["text"], whole["content"])
            self.assertEqual(openai["usage"]["prompt_tokens"], whole["tokens_evaluated"])
            ollama = server.post("/api/generate", {"prompt": "def f(", "suffix": "return x", "stream": False,
                                                   "options": {"num_predict": 4, "temperature": 0}}).json
            self.assertEqual((ollama["response"], ollama["prompt_eval_count"]), (whole["content"], whole["tokens_evaluated"]))
            self.assertIn("insert", server.post("/api/show", {}).json["capabilities"])
            for body in ({"input_prefix": "a"}, {"input_suffix": "a"}, {"input_prefix": "a", "input_suffix": 3},
                         {"input_prefix": "a", "input_suffix": "b", "input_extra": ["x"]},
                         {"input_prefix": "a", "input_suffix": "b" * 100_000}):
                self.assertEqual(server.post("/infill", body).status, 400, body)


if __name__ == "__main__":
    unittest.main()
