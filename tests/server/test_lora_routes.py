"""lora_path and `model` of every route that uses a model: the adapter is applied, or refused with the field's name."""
import json
import pathlib
import shutil
import tempfile
import threading
import unittest

from graphs import embed, gen, graph, text
from harness import Server
from infill_model import infill_model
from test_embeddings import some
from test_lora import some_adapter

PROMPT = "one two three four"
SAID = [{"role": "user", "content": PROMPT}]


class Routes(unittest.TestCase):
    """Two adapters of a model; asks: route -> (body, what of the answer tells that an adapter was there)."""
    flags, model, width = (), None, 64

    @classmethod
    def setUpClass(cls):
        if cls is Routes:
            raise unittest.SkipTest("what follows fills it in")
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        paths = [f"--lora-paths={name}={cls.adapter(cls.folder / name, seed)}" for seed, name in enumerate(("first", "second"))]
        cls.server = Server(*cls.flags, *paths, **({"model": cls.model} if cls.model else {}))
        cls.base = cls.server.get("/v1/models").json["data"][0]["id"]

    @classmethod
    def adapter(cls, folder, seed):
        return some_adapter(folder, 40 + seed, hidden=cls.width, outputs=cls.width)

    @classmethod
    def tearDownClass(cls):
        if hasattr(cls, "server"):
            cls.server.kill()
            shutil.rmtree(cls.folder)

    def ask(self, route, body, **more):
        reply = self.server.post(route, {**body, **more})
        self.assertEqual(reply.status, 200, (route, reply.body))
        return reply.json

    def check_every_route(self, asks):
        for route, (body, seen) in asks.items():
            with self.subTest(route=route):
                plain = seen(self.ask(route, body))
                first, second = (seen(self.ask(route, body, lora_path=name)) for name in ("first", "second"))
                self.assertEqual(seen(self.ask(route, body)), plain)
                self.assertNotEqual(first, plain)
                self.assertNotEqual(second, plain)
                self.assertNotEqual(first, second)
                self.assertEqual(seen(self.ask(route, body, lora_path=["first"])), first)
                self.assertEqual(seen(self.ask(route, body, model="first")), first)
                self.assertEqual(seen(self.ask(route, body, model=f"{self.base}:first")), first)
                self.assertEqual(seen(self.ask(route, body, model="first", lora_path="second")), second, "lora_path counts first")
                for wrong, status in (("nobody", 404), (5, 400), ({"a": 1}, 400), (["first"] * 7, 400)):
                    reply = self.server.post(route, {**body, "lora_path": wrong})
                    self.assertEqual(reply.status, status, (route, wrong, reply.body))
                    self.assertIn(b"lora_path" if status == 400 else b"nobody", reply.body, route)


class Generating(Routes):
    def test_every_route_applies_it(self):
        short, greedy = {"max_tokens": 12, "temperature": 0}, {"temperature": 0, "max_new_tokens": 12, "ignore_eos": True}
        options = {"stream": False, "options": {"num_predict": 12, "temperature": 0}}
        self.check_every_route({
            "/generate": ({"text": PROMPT, "sampling_params": greedy}, lambda a: a["output_ids"]),
            "/v1/completions": ({"prompt": PROMPT, "ignore_eos": True, **short}, lambda a: a["choices"][0]["text"]),
            "/v1/chat/completions": ({"messages": SAID, "ignore_eos": True, **short}, lambda a: a["choices"][0]["message"]["content"]),
            "/v1/messages": ({"messages": SAID, **short}, lambda a: a["content"]),
            "/v1/responses": ({"input": PROMPT, "max_output_tokens": 12, "temperature": 0}, lambda a: a["output"][-1]["content"][0]["text"]),
            "/api/chat": ({"messages": SAID, **options}, lambda a: a["message"]["content"]),
            "/api/generate": ({"prompt": PROMPT, **options}, lambda a: a["response"]),
            "/completion": ({"prompt": PROMPT, "n_predict": 12, "temperature": 0, "ignore_eos": True}, lambda a: a["content"]),
            "/v1/programs": ({"program": graph(text(PROMPT), gen("a")), "sampling_params": {"max_tokens": 12, "temperature": 0}},
                             lambda a: a["results"][0]["variables"]["a"]),
            "/v1/score": ({"query": PROMPT, "items": [" five", " six"], "label_token_ids": [33, 44]}, lambda a: a["scores"]),
        })

    def test_routes_with_choices_and_segments_apply_it_too(self):
        hole = {"name": "a", "sampling_params": {"temperature": 0, "max_new_tokens": 12, "ignore_eos": True}}
        choose = {"text": PROMPT, "sampling_params": {"choices": [" yes", " no"], "choices_method": "token_length_normalized"}}
        for body, seen in ((choose, lambda a: a["meta_info"]["normalized_prompt_logprobs"]),
                           ({"segments": [PROMPT, hole]}, lambda a: a["output_ids"])):
            plain, first, second = (seen(self.ask("/generate", body, **more)) for more in ({}, {"lora_path": "first"}, {"model": "second"}))
            self.assertEqual(seen(self.ask("/generate", body, lora_path=["second"])), second)
            self.assertEqual(len({str(plain), str(first), str(second)}), 3)
            self.assertEqual(self.server.post("/generate", {**body, "lora_path": ["first", "second"]}).status, 400)

    def test_lists_name_one_for_each_prompt_where_a_body_has_several(self):
        for route, field, seen in (("/generate", "text", lambda a: [one["output_ids"] for one in a]),
                                   ("/v1/completions", "prompt", lambda a: [one["text"] for one in a["choices"]])):
            more = {"sampling_params": {"temperature": 0, "max_new_tokens": 12, "ignore_eos": True}} if field == "text" else \
                {"max_tokens": 12, "temperature": 0, "ignore_eos": True}
            one = lambda name: seen(self.ask(route, {field: [PROMPT], **more}, **({"lora_path": name} if name else {})))[0]
            names = ["second", None, "first", "second"]
            self.assertEqual(seen(self.ask(route, {field: [PROMPT] * 4, **more}, lora_path=names)), [one(name) for name in names])
            self.assertEqual(self.server.post(route, {field: [PROMPT] * 4, **more, "lora_path": names[:3]}).status, 400)

    def test_a_pinned_prefix_is_the_adapters(self):
        ids = list(range(40, 104))
        self.assertEqual(self.server.post("/v1/cache/pin", {"id": "p", "input_ids": ids, "lora_path": "first"}).status, 200)
        cached = lambda **more: self.ask("/generate", {"input_ids": ids + [7], "sampling_params": {"max_new_tokens": 1}, **more})["meta_info"]["cached_tokens"]
        self.assertGreaterEqual(cached(lora_path="first"), 64)
        self.assertLess(cached(lora_path="second"), 64)
        self.assertEqual(self.server.post("/v1/cache/unpin", {"id": "p"}).status, 200)

    def test_routes_that_make_nothing_take_an_adapters_name_as_its_models(self):
        for route, body in (("/v1/messages/count_tokens", {"messages": SAID}), ("/v1/responses/input_tokens", {"input": PROMPT})):
            self.assertEqual(self.ask(route, body, model="first"), self.ask(route, body))
        self.assertEqual(self.ask("/tokenize", {"prompt": PROMPT}, model="first")["tokens"], self.ask("/tokenize", {"prompt": PROMPT})["tokens"])
        listed = {one["name"]: one for one in self.server.get("/api/tags").json["models"]}
        self.assertEqual(listed["first:latest"]["details"]["parent_model"], f"{self.base}:latest")
        self.assertGreater(listed["first:latest"]["size"], 1000)


class FillingIn(Routes):
    @classmethod
    def setUpClass(cls):
        made = infill_model()
        cls.model = made.__enter__()
        cls.addClassCleanup(made.__exit__, None, None, None)
        super().setUpClass()

    def test_infill_applies_it(self):
        body = {"input_prefix": "one two ", "input_suffix": " four", "n_predict": 12, "temperature": 0, "ignore_eos": True}
        self.check_every_route({"/infill": (body, lambda a: a["content"])})


class YesNoReranker(Routes):
    @classmethod
    def setUpClass(cls):
        cls.model = some("rerank-", "rerank-text-qwen3")
        config = json.loads((cls.model / "config.json").read_text())
        cls.width, cls.outputs = config["hidden_size"], config["num_attention_heads"] * config["head_dim"]
        super().setUpClass()

    @classmethod
    def adapter(cls, folder, seed):
        return some_adapter(folder, 70 + seed, hidden=cls.width, outputs=cls.outputs)

    def test_reranking_applies_it(self):
        body = {"query": "seven", "documents": [PROMPT, "five"], "return_documents": False}
        self.check_every_route({"/v1/rerank": (body, lambda a: sorted(one["relevance_score"] for one in a["results"]))})


class Embedding(Routes):
    flags = ("--is-embedding", "--pooling", "mean")

    def test_every_route_applies_it(self):
        inputs = {"input": PROMPT}
        self.check_every_route({
            "/v1/embeddings": (inputs, lambda a: a["data"][0]["embedding"]),
            "/encode": ({"text": PROMPT}, lambda a: a["embedding"]),
            "/pooling": (inputs, lambda a: a["data"][0]["data"]),
            "/embedding": ({"content": PROMPT}, lambda a: a[0]["embedding"]),
            "/api/embed": (inputs, lambda a: a["embeddings"]),
            "/api/embeddings": ({"prompt": PROMPT}, lambda a: a["embedding"]),
            "/v1/rerank": ({"query": "seven", "documents": [PROMPT, "five"], "return_documents": False},
                           lambda a: sorted(one["relevance_score"] for one in a["results"])),
            "/v1/score": ({"text_1": "seven", "text_2": [PROMPT]}, lambda a: a["data"][0]["score"]),
            "/v1/programs": ({"program": graph(*embed("v", PROMPT))}, lambda a: a["results"][0]["variables"]["v"]),
        })

    def test_lists_name_one_for_each_text(self):
        seen = lambda a: [one["embedding"] for one in a["data"]]
        one = lambda **more: seen(self.ask("/v1/embeddings", {"input": [PROMPT]}, **more))[0]
        names = ["second", None, "first"]
        self.assertEqual(seen(self.ask("/v1/embeddings", {"input": [PROMPT] * 3}, lora_path=names)),
                         [one(lora_path="second"), one(), one(lora_path="first")])
        short = self.server.post("/v1/embeddings", {"input": [PROMPT] * 3, "lora_path": names[:2]})
        self.assertEqual(short.status, 400)
        self.assertIn("2 entries for 3 prompts", short.json["error"]["message"])


class Encoder(Routes):
    """One ragged batch of an encoder, with adapters mixed in it."""

    @classmethod
    def setUpClass(cls):
        cls.model = some("emb-text", "emb-text-minilm")
        config = json.loads((cls.model / "config.json").read_text())
        cls.width = config["hidden_size"]
        super().setUpClass()

    @classmethod
    def adapter(cls, folder, seed):
        return some_adapter(folder, 50 + seed, hidden=cls.width, outputs=cls.width, module="encoder.layer.0.attention.self.query")

    def test_texts_of_one_batch_are_each_what_they_are_alone(self):
        seen = lambda a: [one["embedding"] for one in a["data"]]
        one = lambda what, **more: seen(self.ask("/v1/embeddings", {"input": [what]}, **more))[0]
        texts = [PROMPT, "a cat", "five six seven eight nine"] * 5
        names = [("first", None, "second")[i * 2 % 3] for i in range(15)]
        together = seen(self.ask("/v1/embeddings", {"input": texts}, lora_path=names))
        for what, name, vector in zip(texts, names, together):
            self.assertEqual(vector, one(what, **({"lora_path": name} if name else {})))
        self.assertNotEqual(together[0], one(texts[0]))


class Classifier(Routes):
    @classmethod
    def setUpClass(cls):
        cls.model = some("reward", "reward-roberta")
        cls.width = json.loads((cls.model / "config.json").read_text())["hidden_size"]
        super().setUpClass()

    @classmethod
    def adapter(cls, folder, seed):
        return some_adapter(folder, 60 + seed, hidden=cls.width, outputs=cls.width, module="roberta.encoder.layer.0.attention.self.query")

    def test_every_route_applies_it(self):
        ids = [5, 6, 7, 8, 9]
        self.check_every_route({
            "/v1/classify": ({"input": [ids]}, lambda a: a["data"][0]["probs"]),
            "/classify": ({"input": [ids]}, lambda a: a["data"][0]["probs"]),
            "/encode": ({"input_ids": ids}, lambda a: a["embedding"]),
        })


class Batches(unittest.TestCase):
    def most_running(self, limit, folder):
        """How many of 8 requests over 4 adapters ran at once, and what they gave."""
        paths = [f"--lora-paths=m{i}={folder / f'm{i}'}" for i in range(4)]
        with Server(*paths, "--max-loras-per-batch", str(limit)) as server:
            answers, most = {}, 0

            def ask(i):
                reply = server.post("/generate", {"input_ids": [10 + i, 20, 30], "lora_path": f"m{i % 4}", "sampling_params": {
                    "temperature": 0, "max_new_tokens": 400, "ignore_eos": True}})
                answers[i] = reply.json["output_ids"] if reply.status == 200 else reply.body

            threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                most = max(most, server.metric("espalier_requests_running") or 0)
            return most, answers

    def test_few_adapters_in_a_batch_let_others_wait_and_change_nothing(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for i in range(4):
                some_adapter(folder / f"m{i}", i)
            many, want = self.most_running(0, folder)
            few, got = self.most_running(1, folder)
        self.assertEqual(got, want)
        self.assertGreater(many, 2, "without a limit all run at once")
        self.assertLessEqual(few, 2, "two of each adapter were asked for")


if __name__ == "__main__":
    unittest.main()
