"""Promise 1 through the running server, on one model of each kind: whatever is in the batch, the cache or the machine, a request has
the same tokens and log-probabilities.

Kinds: experts, windows, sinks, latent vectors, chosen and compressed ones, and every recurrent layer. What is compared with == is
one answer computed alone on a fresh server.
"""
import random
import unittest

from harness import SOURCE, Server, in_parallel

MODELS = SOURCE / "tests/data/goldens/models"
KINDS = {
    "experts": "olmoe", "windows": "gemma3-text", "sinks": "gpt-oss", "shared keys": "gemma4-double",
    "latent vectors": "deepseek-v3", "an indexer": "n26-deepseek-v3.2", "compressed entries": "n26-deepseek-v4",
    "gated delta net": "n26-qwen3-next", "Kimi delta attention": "n26-kimi-linear", "Mamba": "n26-jamba", "Mamba-2": "n26-granite4-hybrid",
    "short convolutions": "n26-lfm2", "lightning attention": "n26-minimax01", "nothing but states": "n26-mamba2",
}
SHARED, OWN, NEW = 90, 40, 24  # tokens that all prompts begin with, of each, and to be made


def requests():
    draw = random.Random(7)
    beginning = [draw.randrange(3, 150) for _ in range(SHARED)]
    for i in range(6):
        sampling = {"temperature": 0} if i % 2 == 0 else {"temperature": 1.1, "top_p": 0.9, "sampling_seed": i}
        tokens = beginning[: SHARED - 13 * (i % 3)] + [draw.randrange(3, 150) for _ in range(OWN)]
        yield {"input_ids": tokens, "return_logprob": True, "sampling_params": {**sampling, "max_new_tokens": NEW, "ignore_eos": True}}


def told(reply):
    return reply["output_ids"], reply["meta_info"]["output_token_logprobs"]


def one_by_one(server):
    return [told(server.generate(**body)) for body in requests()]


def at_once(server):
    bodies = list(requests())
    return [told(reply) for reply in in_parallel(len(bodies), lambda i: server.generate(**bodies[i]))]


# What must not matter: flags, and how often the requests come at once.
ELSE = {
    "one thread, chunks of 16": (("--threads", "1", "--chunked-prefill-size", "16"), 1),
    "no cache": (("--disable-radix-cache",), 1),
    "a pool that retracts": (("--max-total-tokens", "420"), 2),
    "guesses from the text": (("--speculative-algorithm", "ngram"), 2),
}


class EveryKind(unittest.TestCase):
    def alike(self, name):
        folder = MODELS / name
        with Server("--activations", "int8", "--threads", "2", "--disable-radix-cache", model=folder) as server:
            alone = one_by_one(server)
        with Server("--activations", "int8", "--threads", "2", model=folder) as server:
            self.assertEqual(at_once(server), alone, "at once")
            self.assertEqual(one_by_one(server), alone, "out of the cache")
            self.assertGreater(server.metric("espalier_prefix_cache_hit_tokens_total"), 0)
        for what, (flags, times) in ELSE.items():
            with Server("--activations", "int8", *flags, model=folder) as server:
                for _ in range(times):
                    self.assertEqual(at_once(server), alone, what)

    def test_of_models_company_cache_chunks_threads_retraction_and_drafts_change_nothing(self):
        for kind, name in KINDS.items():
            with self.subTest(kind=kind, model=name):
                self.alike(name)


if __name__ == "__main__":
    unittest.main()
