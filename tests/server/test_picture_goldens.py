"""Vision models through the running server: every golden's tokens and log-probabilities, whole and out of the cache.

All goldens where the whole set lies beside the checkout, else those in the repository.
"""
import base64
import json
import math
import os
import pathlib
import unittest

from harness import SOURCE, Server

SHARED = pathlib.Path(os.environ.get("ESPALIER_SHARED", SOURCE.parent / "shared")) / "goldens" / "models"
OURS = SOURCE / "tests" / "data" / "goldens" / "models"
FOLDERS = sorted(p for p in (SHARED if SHARED.exists() else OURS).glob("mm-*") if (p / "golden.json").exists())


def data_url(path):
    return f"data:image/{path.suffix[1:]};base64,{base64.b64encode(path.read_bytes()).decode()}"


class PictureGoldens(unittest.TestCase):
    def check(self, server, folder, golden, case, prompt, cached):
        never = {str(id): -100 for id in golden.get("never_generate", [])}
        pictures = [data_url(folder / name) for name in case["images"]]
        sampling = {"temperature": 0, "max_new_tokens": len(case["greedy"]), "ignore_eos": True, "logit_bias": never}
        said = server.generate(input_ids=prompt, image_data=pictures or None, return_logprob=True, sampling_params=sampling,
                               token_ids_logprob=golden.get("never_generate") or None)
        self.assertEqual(said["output_ids"], case["greedy"], (golden["name"], case["name"]))
        told = said["meta_info"]["output_token_logprobs"]
        others = said["meta_info"].get("output_token_ids_logprobs") or [[]] * len(told)
        for (logprob, *_), barred, wanted in zip(told, others, case["greedy_logprobs"]):
            left = 1 - sum(math.exp(one[0]) for one in barred)  # the golden's are of what may come
            self.assertAlmostEqual(logprob - math.log(left), wanted, delta=1e-3)
        if cached and pictures:
            self.assertGreater(said["meta_info"]["cached_tokens"], len(case["tokens"]) // 2)
        return said

    def test_every_golden_through_generate(self):
        self.assertGreater(len(FOLDERS), 0)
        for folder in FOLDERS:
            golden = json.loads((folder / "golden.json").read_text())
            with self.subTest(golden["name"]), Server(model=folder) as server:
                for case in golden["cases"]:
                    if not all((folder / name).exists() for name in case["images"]):
                        continue
                    first = self.check(server, folder, golden, case, case["tokens_one_placeholder_per_image"], False)
                    again = self.check(server, folder, golden, case, case["tokens_one_placeholder_per_image"], True)
                    self.assertEqual(first["meta_info"]["output_token_logprobs"], again["meta_info"]["output_token_logprobs"])
        if not SHARED.exists():
            print(f"the goldens of vision models but {', '.join(f.name for f in FOLDERS)} are left out: they are not here")


if __name__ == "__main__":
    unittest.main()
