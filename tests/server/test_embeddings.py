"""Embedders, encoders, rerankers and reward models among the goldens through the running server, and the routes around them.

All of them where ../shared lies beside the checkout (CI has it), else the repository's choice. Prints the worst error of each.
"""
import base64
import json
import math
import os
import pathlib
import struct
import tempfile
import threading
import unittest

from harness import MODEL, SOURCE, Server

SHARED = pathlib.Path(os.environ.get("ESPALIER_SHARED", SOURCE.parent / "shared"))


def goldens(*kinds):
    found = {}
    for root in (SOURCE / "tests/data/goldens/models", SHARED / "goldens/models"):
        for folder in sorted(root.glob("*")):
            if folder.name.startswith(kinds) and (folder / "tensors.safetensors").exists():
                found[folder.name] = folder
    return list(found.values())


def golden_of(folder):
    return json.loads((folder / "golden.json").read_text())


def tensors_of(folder):
    """The float32 tensors of a golden, as lists."""
    data = (folder / "tensors.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    found = {}
    for name, entry in head.items():
        if name != "__metadata__":
            begin, end = (8 + size + at for at in entry["data_offsets"])
            found[name] = list(struct.unpack(f"<{(end - begin) // 4}f", data[begin:end]))
    return found


def some(kind, name):
    """One golden by its name; the test is left out where it is not here."""
    for folder in goldens(kind):
        if folder.name == name:
            return folder
    raise unittest.SkipTest(f"left out: no golden {name} here")


def worst(got, want):
    return max(abs(a - b) for a, b in zip(got, want, strict=True))


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(x * x for x in b))


def flags_of(folder):
    return () if (folder / "modules.json").exists() else ("--is-embedding",)


class Vectors(unittest.TestCase):
    def vectors(self, server, folder, golden, tensors):
        """(got, want) of each prompt by ids and each text."""
        for number, prompt in enumerate(golden["prompts"]):
            answer = server.post("/v1/embeddings", {"input": prompt["tokens"], "normalize": True})
            self.assertEqual(answer.status, 200, answer.body)
            yield answer.json["data"][0]["embedding"], tensors[f"p{number}.embedding_l2"]
        for number, text in enumerate(golden.get("texts", [])):
            asked = {"input": text["text"]}
            if text.get("prompt_name"):
                asked["prompt_name"] = text["prompt_name"]
            answer = server.post("/v1/embeddings", asked)
            self.assertEqual(answer.status, 200, answer.body)
            self.assertEqual(answer.json["usage"]["prompt_tokens"], len(text["tokens"]), (folder.name, text))
            yield answer.json["data"][0]["embedding"], tensors[f"t{number}.embedding_l2"]

    def test_every_embedder_gives_the_expected_vectors(self):
        for folder in goldens("emb-"):
            golden, tensors = golden_of(folder), tensors_of(folder)
            if "p0.embedding_l2" not in tensors:
                continue  # it has hidden states alone: src/model/pooled_golden_test.cpp compares them
            with self.subTest(model=folder.name):
                with Server(*flags_of(folder), model=folder) as server:
                    exact = max(worst(*pair) for pair in self.vectors(server, folder, golden, tensors))
                with Server("--activations", "int8", *flags_of(folder), model=folder) as server:
                    default = min(cosine(*pair) for pair in self.vectors(server, folder, golden, tensors))
                print(f"{folder.name:24} worst error {exact:.1e}; default mode: least cosine {default:.5f}")
                self.assertLessEqual(exact, 1e-4, folder.name)
                self.assertGreaterEqual(default, 0.99, folder.name)

    def test_a_vector_is_the_same_alone_and_among_others(self):
        for folder in goldens("emb-")[:: 1 if os.environ.get("ESPALIER_LONG_TESTS") else 3]:
            tokens = [prompt["tokens"] for prompt in golden_of(folder)["prompts"]]
            for mode in ("f32", "int8"):
                with self.subTest(model=folder.name, mode=mode), \
                        Server("--activations", mode, "--threads", "2", *flags_of(folder), model=folder) as server:
                    alone = [server.post("/v1/embeddings", {"input": ids}).json["data"][0]["embedding"] for ids in tokens]
                    many = server.post("/v1/embeddings", {"input": tokens * 20}).json["data"]
                    self.assertEqual([entry["embedding"] for entry in many], alone * 20)


class Scores(unittest.TestCase):
    def test_every_scorer_gives_the_expected_scores(self):
        for folder in goldens("reward-", "rerank-"):
            golden = golden_of(folder)
            if golden["kind"] == "yes-no":
                continue
            with self.subTest(model=folder.name):
                errors = {}
                for mode in ("f32", "int8"):
                    with Server("--activations", mode, model=folder) as server:
                        errors[mode] = self.compare(server, golden, exact=mode == "f32")
                print(f"{folder.name:28} worst error {errors['f32']:.1e}; default mode {errors['int8']:.1e}")
                self.assertLessEqual(errors["f32"], 1e-3)
                self.assertLessEqual(errors["int8"], 0.5)

    def compare(self, server, golden, exact):
        error = 0.0
        for prompt in golden["prompts"]:
            answer = server.post("/classify", {"input_ids": prompt["tokens"]})
            self.assertEqual(answer.status, 200, answer.body)
            error = max(error, worst(answer.json["embedding"], prompt["scores"]))
        for pair in golden.get("pairs", []):
            asked = {"query": pair["query"], "documents": pair["documents"]}
            answer = server.post("/v1/rerank", {**asked, "raw_scores": True}).json
            by_index = {entry["index"]: entry["relevance_score"] for entry in answer["results"]}
            error = max(error, worst([by_index[i] for i in range(len(by_index))], pair["scores"]))
            self.assertEqual(answer["usage"]["prompt_tokens"], sum(len(tokens) for tokens in pair["tokens"]))
            self.assertEqual([e["relevance_score"] for e in answer["results"]], sorted(by_index.values(), reverse=True))
            if exact:
                results = server.post("/v1/rerank", {**asked, "top_n": 2}).json["results"]
                best = sorted(enumerate(pair["probabilities"]), key=lambda entry: -entry[1])[:2]
                for entry, (index, probability) in zip(results, best, strict=True):
                    self.assertEqual((entry["index"], entry["document"]["text"]), (index, pair["documents"][index]))
                    self.assertAlmostEqual(entry["relevance_score"], probability, delta=1e-3)
        return error

    def test_a_yes_no_reranker_is_asked(self):
        folder = some("rerank-", "rerank-text-qwen3")
        golden = golden_of(folder)
        labels = golden["label_token_ids"]
        with Server(model=folder) as server:
            for pair in golden["pairs"]:
                asked = {"query": pair["query"], "documents": pair["documents"]}
                if pair.get("instruct"):
                    asked["instruct"] = pair["instruct"]
                results = server.post("/v1/rerank", asked).json["results"]
                got = {entry["index"]: entry["relevance_score"] for entry in results}
                self.assertLessEqual(worst([got[i] for i in sorted(got)], pair["probabilities"]), 1e-4)
                answer = server.post("/v1/score", {"query": "", "items": pair["rendered"], "label_token_ids": labels,
                                                   "apply_softmax": True}).json
                self.assertEqual(answer["object"], "scoring")
                self.assertLessEqual(worst([row[0] for row in answer["scores"]], pair["probabilities"]), 1e-4)
                ids = server.post("/v1/score", {"query": pair["tokens"][0][:5], "items": [pair["tokens"][0][5:]],
                                                "label_token_ids": labels, "apply_softmax": True}).json
                self.assertAlmostEqual(ids["scores"][0][0], pair["probabilities"][0], delta=1e-4)


class Routes(unittest.TestCase):
    """One encoder, in every dialect's words."""

    @classmethod
    def setUpClass(cls):
        cls.folder = some("emb-text-", "emb-text-minilm")
        cls.server = cls.enterClassContext(Server(model=cls.folder))
        cls.text = "the quick brown fox"
        cls.vector = cls.server.post("/v1/embeddings", {"input": cls.text}).json["data"][0]["embedding"]

    def post(self, path, body, status=200):
        answer = self.server.post(path, body)
        self.assertEqual(answer.status, status, answer.body)
        return answer.json

    def test_the_openai_shape(self):
        answer = self.post("/v1/embeddings", {"input": [self.text, "another"], "model": "default"})
        self.assertEqual([answer["object"], len(answer["data"])], ["list", 2])
        self.assertEqual(answer["data"][0], {"object": "embedding", "index": 0, "embedding": self.vector})
        self.assertEqual(answer["usage"]["prompt_tokens"], answer["usage"]["total_tokens"])
        packed = self.post("/v1/embeddings", {"input": self.text, "encoding_format": "base64"})["data"][0]["embedding"]
        self.assertEqual([struct.unpack("<f", struct.pack("<f", x))[0] for x in self.vector],
                         list(struct.unpack(f"<{len(self.vector)}f", base64.b64decode(packed))))

    def test_dimensions_cut_and_norm(self):
        short = self.post("/v1/embeddings", {"input": self.text, "dimensions": 16})["data"][0]["embedding"]
        length = math.sqrt(sum(x * x for x in self.vector[:16]))
        self.assertLessEqual(worst(short, [x / length for x in self.vector[:16]]), 1e-6)
        self.assertIn("64", self.post("/v1/embeddings", {"input": "x", "dimensions": 65}, 400)["error"]["message"])

    def test_the_other_dialects(self):
        native = self.post("/encode", {"text": [self.text, "another"]})
        self.assertEqual(native[0]["embedding"], self.vector)
        self.assertEqual(self.post("/encode", {"text": self.text})["meta_info"]["finish_reason"]["type"], "length")
        self.assertEqual(self.post("/api/embed", {"input": [self.text]})["embeddings"], [self.vector])
        raw = self.post("/api/embeddings", {"prompt": self.text})["embedding"]
        self.assertAlmostEqual(cosine(raw, self.vector), 1, delta=1e-6)
        self.assertEqual(self.post("/embedding", {"content": self.text}), [{"index": 0, "embedding": [self.vector]}])
        self.assertEqual(self.post("/pooling", {"input": self.text})["data"][0]["data"], self.vector)
        each = self.post("/pooling", {"input": self.text, "task": "token_embed"})["data"][0]["data"]
        self.assertEqual([len(each), len(each[0])], [6, 64])

    def test_an_embedder_ranks_by_its_vectors(self):
        answer = self.post("/v1/rerank", {"query": self.text, "documents": ["she sells sea shells", {"text": self.text}]})
        self.assertEqual(answer["results"][0]["index"], 1)
        self.assertAlmostEqual(answer["results"][0]["relevance_score"], 1, delta=1e-5)
        self.assertEqual(answer["results"][0]["document"], {"text": self.text})
        cohere = self.post("/v2/rerank", {"query": self.text, "documents": ["a", "b"]})
        self.assertNotIn("document", cohere["results"][0])
        self.assertEqual(cohere["meta"]["api_version"]["version"], "2")
        tei = self.post("/rerank", {"query": self.text, "texts": ["a", "b"], "return_text": True})
        self.assertEqual({entry["text"] for entry in tei}, {"a", "b"})
        score = self.post("/v1/score", {"text_1": self.text, "text_2": [self.text, "x"]})
        self.assertAlmostEqual(score["data"][0]["score"], 1, delta=1e-5)

    def test_two_thousand_texts_of_which_some_are_bad(self):
        bad = {17: "", 400: "  \n", 999: 5, 1500: [1, 99999], 1999: "word " * 3000}
        texts = [bad.get(i, f"text number {i % 50}") for i in range(2000)]
        beside = []
        other = threading.Thread(target=lambda: beside.append(self.post("/v1/embeddings", {"input": self.text})))
        other.start()
        answer = self.post("/v1/embeddings", {"input": texts})
        other.join()
        self.assertEqual(beside[0]["data"][0]["embedding"], self.vector)
        self.assertEqual([entry["index"] for entry in answer["data"]], list(range(2000)))
        failed = {entry["index"]: entry["error"] for entry in answer["data"] if "error" in entry}
        self.assertEqual(set(failed), set(bad))
        for index, error in failed.items():
            self.assertIn(f"input[{index}]", error["message"] + error["param"])
        self.assertEqual(answer["data"][3]["embedding"], answer["data"][53]["embedding"])

    def test_every_route_names_the_bad_ones_of_two_thousand(self):
        bad = {17: "", 400: "  \n", 999: 5, 1500: [], 1999: "word " * 3000}
        texts = [bad.get(i, f"text number {i % 50}") for i in range(2000)]
        for path, field, entries in (("/encode", "text", lambda answer: answer), ("/pooling", "input", lambda answer: answer["data"])):
            with self.subTest(path=path):
                answer = entries(self.post(path, {field: texts}))
                self.assertEqual(len(answer), 2000)
                failed = {i: entry["error"] for i, entry in enumerate(answer) if "error" in entry}
                self.assertEqual(set(failed), set(bad))
                for index, error in failed.items():
                    self.assertIn(f"{field}[{index}]", error["message"])
        whole = (("/embedding", "content"), ("/api/embed", "input"), ("/embed", "inputs"), ("/embed_all", "inputs"),
                 ("/v2/embed", "texts"))
        for path, field in whole:  # their answers have no place for an error
            with self.subTest(path=path):
                cut = {index: text for index, text in bad.items() if index < 1999}  # some of these cut by themselves
                asked = [cut.get(i, f"text number {i % 50}") for i in range(2000)]
                error = self.post(path, {field: asked}, 400)
                message = error["message"] if "message" in error else error["error"]
                message = message["message"] if isinstance(message, dict) else message
                for index in cut:
                    self.assertIn(f"{field}[{index}]", message)
        for path, field, body in (("/v1/rerank", "documents", {"query": "q"}), ("/rerank", "texts", {"query": "q"}),
                                  ("/v1/score", "text_2", {"text_1": "q"})):
            with self.subTest(path=path):
                asked = [5 if i == 999 else f"text number {i % 50}" for i in range(2000)]
                self.assertIn(f"{field}[999]", self.post(path, {**body, field: asked}, 400)["error"]["message"])
                asked[999] = "word " * 3000
                self.assertIn(f"{field}[999]", self.post(path, {**body, field: asked}, 400)["error"]["message"])

    def test_coheres_shape(self):
        body = {"model": "default", "texts": [self.text, "another"], "input_type": "search_document",
                "embedding_types": ["float", "int8", "uint8", "binary", "ubinary", "base64"]}
        answer = self.post("/v2/embed", body)
        self.assertEqual([answer["response_type"], answer["texts"]], ["embeddings_by_type", body["texts"]])
        vectors = answer["embeddings"]
        self.assertEqual(vectors["float"][0], self.vector)
        largest = max(abs(x) for x in self.vector)
        for got, x in zip(vectors["int8"][0], self.vector, strict=True):
            self.assertLessEqual(abs(got - 127 * x / largest), 0.51)
        self.assertEqual(vectors["uint8"][0], [x + 128 for x in vectors["int8"][0]])
        bits = [sum(128 >> j for j in range(8) if self.vector[8 * i + j] > 0) for i in range(8)]
        self.assertEqual([vectors["ubinary"][0], vectors["binary"][0]], [bits, [x - 128 for x in bits]])
        self.assertEqual(list(struct.unpack("<64f", base64.b64decode(vectors["base64"][0]))),
                         [struct.unpack("<f", struct.pack("<f", x))[0] for x in self.vector])
        self.assertGreater(answer["meta"]["billed_units"]["input_tokens"], 0)
        self.assertEqual(len(self.post("/v2/embed", {"texts": ["x"], "output_dimension": 16})["embeddings"]["float"][0]), 16)
        first = self.post("/v1/embed", {"texts": [self.text]})
        self.assertEqual([first["response_type"], first["embeddings"]], ["embeddings_floats", [self.vector]])
        inputs = self.post("/v2/embed", {"inputs": [{"content": [{"type": "text", "text": self.text}]}]})
        self.assertEqual(inputs["embeddings"]["float"], [self.vector])

    def test_both_ends_of_a_text_may_be_cut(self):
        words = [f"w{i % 7}" for i in range(3000)]
        ends = {name: self.post("/v2/embed", {"texts": [" ".join(words)], **more})["embeddings"]["float"][0]
                for name, more in (("as it is", {}), ("end", {"truncate": "END"}), ("start", {"truncate": "START"}))}
        self.assertEqual(ends["as it is"], ends["end"])
        self.assertNotEqual(ends["start"], ends["end"])
        left = self.post("/embed", {"inputs": " ".join(words), "truncate": True, "truncation_direction": "Left"})
        self.assertEqual(left, [ends["start"]])
        answer = self.post("/v2/embed", {"texts": [" ".join(words)], "truncate": "NONE"}, 400)
        self.assertIn("context", answer["message"])
        short = self.post("/v1/embeddings", {"input": "a b c d e f", "truncate_prompt_tokens": 4, "truncation_side": "left"})
        self.assertEqual(short["data"][0]["embedding"], self.post("/v1/embeddings", {"input": "e f"})["data"][0]["embedding"])

    def test_coheres_refusals(self):
        for body, word in (({}, "texts"), ({"texts": []}, "texts"), ({"texts": "x"}, "texts"), ({"texts": [[1]]}, "texts"),
                           ({"texts": ["x"], "images": ["y"]}, "images"), ({"texts": ["x"], "embedding_types": ["int9"]}, "embedding_types"),
                           ({"texts": ["x"], "embedding_types": "float"}, "embedding_types"), ({"texts": ["x"], "truncate": "MIDDLE"}, "truncate"),
                           ({"images": ["data:image/png;base64,AAAA"]}, "images")):
            self.assertIn(word, self.post("/v2/embed", body, 400)["message"], body)

    def test_the_shapes_of_text_embeddings_inference(self):
        self.assertEqual(self.post("/embed", {"inputs": self.text}), [self.vector])
        self.assertEqual(self.post("/embed", {"inputs": ["another", self.text], "normalize": True})[1], self.vector)
        raw = self.post("/embed", {"inputs": self.text, "normalize": False})[0]
        self.assertAlmostEqual(cosine(raw, self.vector), 1, delta=1e-6)
        each = self.post("/embed_all", {"inputs": self.text})
        self.assertEqual([len(each), len(each[0]), len(each[0][0])], [1, 6, 64])
        close = self.post("/similarity", {"inputs": {"source_sentence": self.text, "sentences": [self.text, "another"]}})
        self.assertAlmostEqual(close[0], 1, delta=1e-5)
        self.assertLess(close[1], close[0])
        for path, body, word in (("/embed", {}, "inputs"), ("/embed", {"inputs": "word " * 3000}, "context"), ("/predict", {"inputs": "x"}, "classes"),
                                 ("/embed_sparse", {"inputs": "x"}, "sparse"), ("/similarity", {"inputs": "x"}, "source_sentence")):
            error = self.post(path, body, 400)
            self.assertEqual((word in error["error"], error["error_type"]), (True, "validation"), error)

    def test_jinas_fields(self):
        task = self.post("/v1/embeddings", {"input": self.text, "task": "text-matching", "normalized": True, "embedding_type": "float"})
        self.assertEqual(task["data"][0]["embedding"], self.vector)
        bits = self.post("/v1/embeddings", {"input": [{"text": self.text}], "embedding_type": ["ubinary"]})["data"][0]["embedding"]
        self.assertEqual(bits, [sum(128 >> j for j in range(8) if self.vector[8 * i + j] > 0) for i in range(8)])
        self.assertIn("late_chunking", self.post("/v1/embeddings", {"input": "x", "late_chunking": True}, 400)["error"]["message"])
        self.assertIn("embedding_type", self.post("/v1/embeddings", {"input": "x", "embedding_type": "int4"}, 400)["error"]["message"])

    def test_programs_embed(self):
        text_of, argument_of = ({"stream": 0, "kind": kind, **more} for kind, more in (("text", {"text": self.text}), ("argument", {"name": "t"})))
        begin = {"stream": 0, "kind": "scored_text"}
        vector = {"stream": 0, "kind": "score", "of": "embed", "name": "v", "texts": 1}
        fit = {"stream": 0, "kind": "score", "of": "rerank", "name": "best", "texts": 2, "list": True}
        program = {"version": 1, "name": "p", "parameters": ["t"], "streams": 1,
                   "nodes": [begin, text_of, vector, begin, text_of, {**begin, "each": True}, argument_of, fit]}
        answer = self.post("/v1/programs", {"program": program, "arguments": {"t": ["another", self.text]}})["results"][0]
        self.assertEqual(answer["variables"]["v"], self.vector)
        self.assertEqual(answer["variables"]["best"], [self.text, "another"])
        self.assertEqual(answer["meta"]["best"]["indices"], [1, 0])
        self.assertEqual(answer["text"], "")
        failed = self.post("/v1/programs", {"program": program, "arguments": {"t": ["x", "word " * 3000]}})["results"][0]
        self.assertIn("documents[1]", failed["error"]["message"])

    def test_refusals(self):
        for body, word in (({}, "input"), ({"input": []}, "input"), ({"input": ""}, "blank"), ({"input": 3}, "input"),
                           ({"input": "x", "encoding_format": "int8"}, "encoding_format"),
                           ({"input": "x", "prompt_name": "none"}, "prompt_name"), ({"input": ["", " "]}, "input[0]"),
                           ({"input": "word " * 3000}, "context")):
            self.assertIn(word, self.post("/v1/embeddings", body, 400)["error"]["message"], body)
        cut = self.post("/v1/embeddings", {"input": "word " * 3000, "truncate": True})
        self.assertEqual(cut["usage"]["prompt_tokens"], 256)
        self.assertIn("generates no text", self.post("/generate", {"text": "x"}, 400)["error"]["message"])
        self.assertIn("no classes", self.post("/v1/classify", {"input": "x"}, 400)["error"]["message"])

    def test_it_is_told_what_it_is(self):
        info = self.server.get("/get_model_info").json
        self.assertEqual([info["is_generation"], info["task"], info["embedding_length"]], [False, "embed", 64])
        self.assertEqual(self.server.get("/v1/models").json["data"][0]["task"], "embed")
        self.assertEqual(self.post("/api/show", {"model": "default"})["capabilities"], ["embedding"])


class Classes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server(model=some("rerank-", "rerank-text-bert")))

    def post(self, path, body, status=200):
        answer = self.server.post(path, body)
        self.assertEqual(answer.status, status, answer.body)
        return answer.json

    def test_predictions_of_text_embeddings_inference(self):
        pairs = [["who?", "me"], ["who?"], ["what?", "not me"]]
        batch = self.post("/predict", {"inputs": pairs, "raw_scores": True})
        self.assertEqual(len(batch), 3)
        alone = self.post("/predict", {"inputs": pairs[0], "raw_scores": True})
        self.assertEqual(alone, batch[0])
        told = self.post("/classify", {"text": [pairs[0]]})[0]["embedding"]
        self.assertLessEqual(worst(sorted(told, reverse=True), [entry["score"] for entry in alone]), 1e-5)
        self.assertEqual(self.post("/predict", {"inputs": "who?", "raw_scores": True}), batch[1])
        self.assertEqual(set(alone[0]), {"score", "label"})
        self.assertIn("inputs[1]", self.post("/predict", {"inputs": [["a"], ["a", "b", "c"]]}, 400)["error"])

    def test_the_bad_ones_of_two_thousand_pairs(self):
        bad = {17: ["a", 3], 999: 5, 1999: ["word " * 3000, "b"]}
        pairs = [bad.get(i, ["who?", f"number {i % 50}"]) for i in range(2000)]
        for path, field in (("/v1/classify", "input"), ("/classify", "text")):
            with self.subTest(path=path):
                answer = self.post(path, {field: pairs})
                entries = answer["data"] if path == "/v1/classify" else answer
                failed = {i: entry["error"] for i, entry in enumerate(entries) if "error" in entry}
                self.assertEqual(set(failed), set(bad))
                for index, error in failed.items():
                    self.assertIn(f"{field}[{index}]", error["message"])
        message = self.post("/predict", {"inputs": pairs}, 400)["error"]
        for index in (17, 999):
            self.assertIn(f"inputs[{index}]", message)


class SeeingJudge(unittest.TestCase):
    """Qwen3-VL-Reranker's kind: a golden of Qwen3-VL with tokens for yes, no and turns, and a template as that model's.

    What is asked is written out here as the model card's code writes it, sent as a plain prompt, and must score the same.
    """
    TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}{% else %}"
                "{% for c in m.content %}{% if c.type == 'text' %}{{ c.text }}{% else %}<|image|>{% endif %}{% endfor %}{% endif %}"
                "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
    SYSTEM = ('Judge whether the Document meets the requirements based on the Query and the Instruct provided. '
              'Note that the answer can only be "yes" or "no".')
    INSTRUCT = "Given a search query, retrieve relevant candidates that answer the query."

    @classmethod
    def setUpClass(cls):
        golden = SHARED / "goldens/models/mm-qwen3-vl"
        if not golden.exists():
            raise unittest.SkipTest("left out: no golden mm-qwen3-vl here")
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        for file in golden.iterdir():
            (cls.folder / file.name).write_bytes(file.read_bytes())
        tokenizer = (golden / "tokenizer.json").read_text()
        for old, new in (("<|user|>", "<|im_start|>"), ("<|end|>", "<|im_end|>"), ("<|assistant|>", "yes"), ("<|system|>", "no")):
            tokenizer = tokenizer.replace(json.dumps(old), json.dumps(new))
        (cls.folder / "tokenizer.json").write_text(tokenizer)
        config = json.loads((golden / "tokenizer_config.json").read_text())
        (cls.folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": cls.TEMPLATE}))
        cls.picture = "data:image/png;base64," + base64.b64encode((golden / "image1.png").read_bytes()).decode()
        ids = json.loads(tokenizer)["model"]["vocab"]
        cls.labels = [ids["yes"], ids["no"]]
        cls.server = cls.enterClassContext(Server(model=cls.folder))

    def expected(self, query, document, pictures=(), instruct=INSTRUCT):
        prompt = (f"<|im_start|>system\n{self.SYSTEM}<|im_end|>\n<|im_start|>user\n<Instruct>: {instruct}<Query>:{query}"
                  f"\n<Document>:{document}<|im_end|>\n<|im_start|>assistant\n")
        body = {"text": prompt, "sampling_params": {"temperature": 0, "max_new_tokens": 1}, "return_logprob": True,
                "token_ids_logprob": self.labels}
        if pictures:
            body["image_data"] = list(pictures)
        answer = self.server.post("/generate", body)
        self.assertEqual(answer.status, 200, answer.body)
        told = {entry[1]: entry[0] for entry in answer.json["meta_info"]["output_token_ids_logprobs"][0]}
        return 1 / (1 + math.exp(told[self.labels[1]] - told[self.labels[0]]))

    def rerank(self, status=200, **body):
        answer = self.server.post("/v1/rerank", body)
        self.assertEqual(answer.status, status, answer.body)
        if status != 200:
            return answer.json["error"]
        return {entry["index"]: entry["relevance_score"] for entry in answer.json["results"]}

    def test_documents_that_are_read_and_seen(self):
        documents = ["me", {"image": self.picture}, {"text": "not me", "image": self.picture}]
        got = self.rerank(query="who?", documents=documents)
        wanted = [self.expected("who?", "me"), self.expected("who?", "<|image|>", [self.picture]),
                  self.expected("who?", "<|image|>not me", [self.picture])]
        for index, score in enumerate(wanted):
            self.assertAlmostEqual(got[index], score, delta=1e-5)
        self.assertEqual(len(set(wanted)), 3)

    def test_a_query_that_is_seen_and_an_instruction(self):
        got = self.rerank(query={"image": self.picture, "text": "this"}, documents=["me", "him"], instruct="Find it.")
        for index, document in enumerate(("me", "him")):
            wanted = self.expected("<|image|>this", document, [self.picture], "Find it.")
            self.assertAlmostEqual(got[index], wanted, delta=1e-5)

    def test_a_document_that_is_too_long_is_cut_and_its_picture_stays(self):
        long = {"text": "word " * 3000, "image": self.picture}
        self.assertIn("documents[1]", self.rerank(400, query="who?", documents=["me", long])["message"])
        for side in ("END", "START"):
            got = self.rerank(query="who?", documents=["me", long], truncate=side)
            self.assertAlmostEqual(got[0], self.expected("who?", "me"), delta=1e-5)
        few = self.rerank(query="who?", documents=[long], truncate_prompt_tokens=700)
        self.assertEqual(len(few), 1)
        self.assertIn("no room", self.rerank(400, query="who?", documents=[long], truncate_prompt_tokens=10)["message"])

    def test_scores_of_pairs_are_the_same(self):
        answer = self.server.post("/v1/score", {"text_1": "who?", "text_2": ["me", {"image": self.picture}]})
        self.assertEqual(answer.status, 200, answer.body)
        got = [entry["score"] for entry in answer.json["data"]]
        self.assertAlmostEqual(got[1], self.expected("who?", "<|image|>", [self.picture]), delta=1e-5)


class Gguf(unittest.TestCase):
    def test_a_file_of_an_encoder_gives_the_vectors_of_its_folder(self):
        folder = some("emb-text-", "emb-text-minilm")
        golden, tensors = golden_of(folder), tensors_of(folder)
        with Server(model=SOURCE / "tests/data/goldens/gguf/gguf-emb-minilm/minilm-f16.gguf") as server:
            for number, text in enumerate(golden["texts"]):
                answer = server.post("/v1/embeddings", {"input": text["text"]}).json
                self.assertEqual(answer["usage"]["prompt_tokens"], len(text["tokens"]))
                self.assertLessEqual(worst(answer["data"][0]["embedding"], tensors[f"t{number}.embedding_l2"]), 1e-4)


class Pictures(unittest.TestCase):
    """Vision models as embedders: what Qwen3-VL-Embedding and its like are."""

    def data_url(self, path):
        return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()

    def test_the_last_row_behind_text_and_pictures(self):
        wanted = json.loads((SOURCE / "tests/data/goldens/picture_embeddings.json").read_text())
        for name, cases in wanted.items():
            folder = next((root / name for root in (SHARED / "goldens/models", SOURCE / "tests/data/goldens/models")
                           if (root / name / "golden.json").exists()), None)
            if folder is None:
                continue
            with self.subTest(model=name), Server("--is-embedding", model=folder) as server:
                for case in golden_of(folder)["cases"]:
                    body = {"input_ids": case["tokens_one_placeholder_per_image"]}
                    if case["images"]:
                        body["image_data"] = [self.data_url(folder / image) for image in case["images"]]
                    for _ in range(2):  # the second time from the cache
                        answer = server.post("/encode", body)
                        self.assertEqual(answer.status, 200, answer.body)
                        self.assertLessEqual(worst(answer.json["embedding"], cases[case["name"]]), 1e-4)

    def test_conversations_and_objects(self):
        folder = SHARED / "goldens/models/mm-qwen3-vl"
        if not folder.exists():
            self.skipTest("left out: no golden mm-qwen3-vl here")
        first, second = (self.data_url(folder / f"image{i}.png") for i in range(2))
        with Server("--is-embedding", model=folder) as server:
            def vector(body, status=200):
                answer = server.post("/v1/embeddings", body)
                self.assertEqual(answer.status, status, answer.body)
                return answer.json["data"][0]["embedding"] if status == 200 else answer.json["error"]

            def chat(picture):
                return {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": picture}},
                                                                  {"type": "text", "text": "what is it?"}]}]}

            self.assertEqual(vector(chat(first)), vector(chat(first)))
            self.assertNotEqual(vector(chat(first)), vector(chat(second)))
            one, two = vector({"input": {"text": "it", "image": first}}), vector({"input": [{"image": second}, "plain text"]})
            self.assertNotEqual(one, two)
            self.assertNotEqual(one, vector({"input": {"text": "it", "image": first}, "instruct": "Find it."}))
            bad = vector({"input": {"image": "data:image/png;base64,AAAA"}}, 400)
            self.assertEqual((bad["param"], bad["message"][:7]), ("input", "input: "), bad)
            told = server.post("/v1/embeddings", {"input": ["plain", {"image": "data:image/png;base64,AAAA"}]}).json["data"]
            self.assertEqual([entry["object"] for entry in told], ["embedding", "error"])
            self.assertEqual(told[1]["error"]["param"], "input[1]", told[1])


class LateInteraction(unittest.TestCase):
    """ColQwen2 around a golden of Qwen2-VL: tools/goldens/make_late_interaction.py computes what the same checkpoint gives."""

    def checkpoint(self, inner, folder, width):
        """The golden's files, its tensors below vlm., and a projection by a formula in place of the output's weights."""
        for file in inner.iterdir():
            if file.name not in ("config.json", "model.safetensors", "golden.json", "tensors.safetensors"):
                (folder / file.name).write_bytes(file.read_bytes())
        config = json.loads((inner / "config.json").read_text())
        outer = {"architectures": ["ColQwen2ForRetrieval"], "model_type": "colqwen2", "embedding_dim": width, "vlm_config": config}
        (folder / "config.json").write_text(json.dumps(outer))
        data = (inner / "model.safetensors").read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        renamed, body, hidden = {}, b"", config["hidden_size"]
        for name, entry in json.loads(data[8:8 + size]).items():
            if name in ("__metadata__", "lm_head.weight"):
                continue
            inside, (begin, end) = name.removeprefix("model."), entry["data_offsets"]
            renamed["vlm." + (inside if inside.startswith("visual.") else "language_model." + inside)] = {
                **entry, "data_offsets": [len(body), len(body) + end - begin]}
            body += data[8 + size + begin:8 + size + end]
        weight = [math.sin(1 + 7 * i + 3 * j) for i in range(width) for j in range(hidden)]
        bias = [math.cos(i) for i in range(width)]
        for name, values, shape in (("weight", weight, [width, hidden]), ("bias", bias, [width])):
            renamed[f"embedding_proj_layer.{name}"] = {"dtype": "F32", "shape": shape,
                                                       "data_offsets": [len(body), len(body) + 4 * len(values)]}
            body += struct.pack(f"<{len(values)}f", *values)
        text = json.dumps(renamed).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)

    def test_every_token_has_a_vector_and_documents_are_ranked_by_their_best(self):
        wanted = json.loads((SOURCE / "tests/data/goldens/late_interaction.json").read_text())
        inner = SHARED / "goldens/models/mm-qwen2-vl"
        if not inner.exists():
            self.skipTest("left out: no golden mm-qwen2-vl here")
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            self.checkpoint(inner, folder, wanted["width"])
            with Server(model=folder) as server:
                for case in golden_of(inner)["cases"]:
                    body = {"input_ids": case["tokens_one_placeholder_per_image"]}
                    if case["images"]:
                        body["image_data"] = ["data:image/png;base64," + base64.b64encode((inner / name).read_bytes()).decode()
                                              for name in case["images"]]
                    answer = server.post("/encode", body)
                    self.assertEqual(answer.status, 200, answer.body)
                    rows = wanted["rows"][case["name"]]
                    self.assertLessEqual(max(worst(*pair) for pair in zip(answer.json["embedding"], rows, strict=True)), 2e-4)
                self.check_ranking(server, inner)

    def check_ranking(self, server, inner):
        """A query is read as ColQwen2's processor writes it; each of its tokens counts with its best product."""
        def rows(text):
            return server.post("/encode", {"text": text}).json["embedding"]

        documents = ["she sells sea shells", "who?"]
        pad = json.loads((inner / "tokenizer_config.json").read_text())["pad_token"]
        query = rows("Query: who?" + 10 * pad + "\n")
        scores = [sum(max(sum(a * b for a, b in zip(q, d)) for d in rows(text)) for q in query) for text in documents]
        results = server.post("/v1/rerank", {"query": "who?", "documents": documents}).json["results"]
        for entry in results:
            self.assertAlmostEqual(entry["relevance_score"], scores[entry["index"]], delta=1e-3)
        self.assertGreaterEqual(results[0]["relevance_score"], results[1]["relevance_score"])
        picture = "data:image/png;base64," + base64.b64encode((inner / "image0.png").read_bytes()).decode()
        shown = server.post("/v1/rerank", {"query": "who?", "documents": [{"image": picture}, {"text": "who?"}]})
        self.assertEqual(shown.status, 200, shown.body)
        self.assertEqual({entry["index"] for entry in shown.json["results"]}, {0, 1})
        small = server.post("/v1/embeddings", {"input": documents, "embedding_type": "int8"}).json["data"]
        for entry, text in zip(small, documents, strict=True):
            self.assertEqual([max(map(abs, row)) for row in entry["embedding"]], [127] * len(rows(text)), "each row by itself")
        refused = server.post("/similarity", {"inputs": {"source_sentence": "who?", "sentences": documents}})
        self.assertEqual(refused.status, 400)
        self.assertIn("token_embed", refused.json["error"])


class Purpose(unittest.TestCase):
    def test_a_causal_model_embeds_where_it_is_asked_to(self):
        ids = [1, 5, 6, 7]
        with Server("--is-embedding") as server:
            vectors = [server.post("/encode", {"input_ids": ids}).json for _ in range(2)]
            self.assertEqual(vectors[0]["embedding"], vectors[1]["embedding"])
            self.assertEqual(vectors[1]["meta_info"]["cached_tokens"], len(ids) - 1)
        with Server("--is-embedding", "--pooling", "mean") as server:
            self.assertNotEqual(server.post("/encode", {"input_ids": ids}).json["embedding"], vectors[0]["embedding"])
        with Server() as server:
            for path, body in (("/v1/embeddings", {"input": "x"}), ("/encode", {"text": "x"}), ("/embedding", {"content": "x"})):
                answer = server.post(path, body)
                self.assertEqual(answer.status, 400)
                self.assertIn("--is-embedding", answer.json["error"]["message"])

    def test_a_text_waits_in_chunks_like_any_prompt(self):
        ids = [1 + i % 300 for i in range(200)]
        got = []
        for flags in ((), ("--chunked-prefill-size", "16"), ("--disable-radix-cache",)):
            with Server("--is-embedding", "--pooling", "mean", *flags, model=MODEL) as server:
                got.append(server.post("/encode", {"input_ids": ids}).json["embedding"])
        self.assertTrue(all(vector == got[0] for vector in got))


if __name__ == "__main__":
    unittest.main()
