"""Every architecture among the goldens on several ranks: the running server's answers are one process's, bit for bit.

All of them with ESPALIER_LONG_TESTS, on 2 ranks and some on 4 or 8, where ../shared lies beside the checkout; else a few of the
repository's choice. (src/model/ranks/split_golden_test.cpp compares the logits of all on 2, 3, 4 and 8.) Prints who was compared how.
"""
import itertools
import json
import os
import unittest

from harness import SOURCE, Server, in_parallel
from picture_checks import data_url
from test_embeddings import flags_of
from test_goldens import SHARED
from test_ranks import DEFAULT

LONG = bool(os.environ.get("ESPALIER_LONG_TESTS"))
SIZES = (2, 4, 2, 8)  # of one model after the other


def folders(kind):
    found = {}
    for root in (SOURCE / "tests/data/goldens" / kind, SHARED / "goldens" / kind):
        for folder in sorted(root.glob("*")):
            if (folder / "golden.json").exists():
                found[folder.name] = folder
    return [found[name] for name in sorted(found)][:: 1 if LONG else 23]


def generated(server, golden):
    ways = ({"temperature": 0}, {"temperature": 1.0, "sampling_seed": 5})
    prompts = [prompt["tokens"] for prompt in golden.get("prompts", [])] or [list(range(3 + i, 40 + 9 * i)) for i in range(4)]
    bodies = [{"input_ids": tokens, "return_logprob": True, "sampling_params": {**way, "max_new_tokens": 8, "ignore_eos": True}}
              for tokens in prompts for way in ways]
    replies = in_parallel(len(bodies), lambda i: server.generate(**bodies[i]))
    return [(reply["output_ids"], reply["meta_info"]["output_token_logprobs"]) for reply in replies]


def seen(server, golden, folder):
    cases = [case for case in golden["cases"] if case["images"] and all((folder / name).exists() for name in case["images"])]
    bodies = [{"input_ids": case["tokens_one_placeholder_per_image"], "image_data": [data_url(folder / name) for name in case["images"]],
               "return_logprob": True, "sampling_params": {"temperature": 0, "max_new_tokens": 6, "ignore_eos": True}} for case in cases[:2]]
    replies = [server.generate(**body) for body in bodies]
    return [(reply["output_ids"], reply["meta_info"]["output_token_logprobs"]) for reply in replies]


def ok(reply):
    assert reply.status == 200, reply.body
    return reply.json


def pooled(server, golden, path, field):
    return [ok(server.post(path, {field: prompt["tokens"]})) for prompt in golden.get("prompts", [])]


def ranked(server, golden):
    return [ok(server.post("/v1/rerank", {"query": pair["query"], "documents": pair["documents"]}))["results"] for pair in golden["pairs"]]


def answers(server, folder, golden):
    """What a model of its kind is for, as the server tells it."""
    if folder.name.startswith("mm-"):
        return seen(server, golden, folder)
    if folder.name.startswith("emb-"):
        return [reply["data"] for reply in pooled(server, golden, "/v1/embeddings", "input")]
    if golden.get("kind") == "yes-no":
        return ranked(server, golden)
    if folder.name.startswith(("reward-", "rerank-")):
        return [reply["embedding"] for reply in pooled(server, golden, "/classify", "input_ids")]
    return generated(server, golden)


class EveryArchitecture(unittest.TestCase):
    def same(self, folder, size, model):
        golden = json.loads((folder / "golden.json").read_text())
        flags = (*DEFAULT, *(flags_of(folder) if folder.name.startswith("emb-") else ()))
        with Server(*flags, model=model) as one:
            expected = answers(one, folder, golden)
        self.assertTrue(expected, "nothing was asked")
        with Server(*flags, "--tp-size", str(size), model=model) as server:
            self.assertEqual(server.get("/get_server_info").json["tp_size"], size)
            self.assertEqual(answers(server, folder, golden), expected)
            self.assertEqual(answers(server, folder, golden), expected, "out of the tree")
        return len(expected)

    def every_one(self, models):
        for (folder, model), size in zip(models, itertools.cycle(SIZES)):
            with self.subTest(model=model.name, ranks=size):
                print(f"{model.name:32} {size} ranks: {self.same(folder, size, model)} answers are one process's", flush=True)

    def test_answers_of_every_model(self):
        self.every_one((folder, folder) for folder in folders("models"))

    def test_answers_of_quantised_checkpoints(self):
        self.every_one((folder, folder) for folder in folders("quant"))

    def test_answers_of_gguf_files(self):
        self.every_one((folder, file) for folder in folders("gguf") if "emb" not in folder.name for file in sorted(folder.glob("*.gguf")))


if __name__ == "__main__":
    unittest.main()
