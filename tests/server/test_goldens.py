"""Every text model among the goldens through the running server: greedy ids and log-probabilities, in exact and default mode.

The whole set where ../shared lies beside the checkout (CI has it), else the repository's choice. Prints the worst error of each.
"""
import json
import math
import os
import pathlib
import unittest

from harness import SOURCE, Server

SHARED = pathlib.Path(os.environ.get("ESPALIER_SHARED", SOURCE.parent / "shared"))
OTHER_KINDS = ("mm-", "emb-", "rerank-", "reward-")  # not text models that give logits


def goldens(kind):
    found = {}
    for root in (SOURCE / "tests/data/goldens" / kind, SHARED / "goldens" / kind):
        for folder in sorted(root.glob("*")):
            if not folder.name.startswith(OTHER_KINDS):
                found[folder.name] = folder
    return found.values()


def generate(server, prompt, **more):
    return server.generate(input_ids=prompt["tokens"], return_logprob=True,
                           sampling_params={"temperature": 0, "max_new_tokens": len(prompt["greedy"]), "ignore_eos": True}, **more)


def logprobs(answer):
    return [entry[0] for entry in answer["meta_info"]["output_token_logprobs"]]


class Goldens(unittest.TestCase):
    def exact(self, folder):
        golden = json.loads((folder / "golden.json").read_text())
        worst = 0.0
        with Server(model=folder) as server:
            for number, prompt in enumerate(golden["prompts"]):
                for again in range(2):  # the second time from the cache
                    answer = generate(server, prompt)
                    self.assertEqual(answer["output_ids"], prompt["greedy"], f"{folder.name}, prompt {number}, time {again}")
                    for got, want in zip(logprobs(answer), prompt["greedy_logprobs"]):
                        worst = max(worst, abs(got - want))
                if prompt.get("prompt_logprobs"):
                    answer = generate(server, prompt, logprob_start_len=0)
                    got = [entry[0] for entry in answer["meta_info"]["input_token_logprobs"]]
                    for mine, want in zip(got[1:], prompt["prompt_logprobs"][1:]):
                        worst = max(worst, abs(mine - want))
        self.assertLessEqual(worst, 1e-3, folder.name)
        return worst

    def default(self, folder):
        """Ids agree where every lead is large beside the logits' spread; the share of equal ones is told."""
        golden = json.loads((folder / "golden.json").read_text())
        same = wanted = 0
        with Server("--activations", "int8", model=folder) as server:
            for prompt in golden["prompts"]:
                answer = generate(server, prompt)
                self.assertTrue(all(math.isfinite(value) for value in logprobs(answer)), folder.name)
                if prompt["min_margin"] >= 0.3 * golden["logit_std"]:
                    self.assertEqual(answer["output_ids"], prompt["greedy"], folder.name)
                equal = next((i for i, pair in enumerate(zip(answer["output_ids"], prompt["greedy"])) if pair[0] != pair[1]), len(prompt["greedy"]))
                same, wanted = same + equal, wanted + len(prompt["greedy"])
        return same / wanted

    def test_every_model_gives_the_expected_ids_and_log_probabilities(self):
        self.every_one("models")

    def test_every_quantised_checkpoint_gives_the_ids_and_log_probabilities_of_its_decoded_weights(self):
        self.every_one("quant")

    def every_one(self, kind):
        models = list(goldens(kind))
        for folder in models:
            with self.subTest(model=folder.name):
                worst = self.exact(folder)
                share = self.default(folder)
                print(f"{folder.name:24} worst log-probability error {worst:.1e}; default mode: {share:.0%} of ids before the first other one")
        if not (SHARED / "goldens" / kind).is_dir():
            print(f"left out: all but {len(models)} goldens, as {SHARED} is not here")


if __name__ == "__main__":
    unittest.main()
