"""Films through the running server: of every family that takes them, the tokens and log-probabilities that transformers gives
for a prompt with a film (tests/data/pictures/films.json), whole and out of the cache. Needs the whole set of goldens.
"""
import json
import math
import os
import pathlib
import shutil
import tempfile
import unittest

from film_folders import data_urls, film_folder
from harness import SOURCE, Server

GOLDENS = pathlib.Path(os.environ.get("ESPALIER_SHARED", SOURCE.parent / "shared")) / "goldens" / "models"
FAMILIES = json.loads((SOURCE / "tests" / "data" / "pictures" / "films.json").read_text())


class FilmGoldens(unittest.TestCase):
    def said(self, server, entry, film):
        given = {"url": data_urls(film), **({"fps": film["fps"]} if "fps" in film else {})}
        never = {str(id): -100 for id in entry["never"]}
        return server.generate(text=film["prompt"], video_data=[given], return_logprob=True, token_ids_logprob=entry["never"],
                               sampling_params={"temperature": 0, "max_new_tokens": len(film["greedy"]), "ignore_eos": True,
                                                "logit_bias": never, "skip_special_tokens": False})

    def check(self, server, entry, film):
        name = (entry["name"], film["frames"])
        first = self.said(server, entry, film)
        self.assertEqual(first["meta_info"]["prompt_tokens"], len(film["tokens"]), name)
        self.assertEqual(first["output_ids"], film["greedy"], name)
        told = first["meta_info"]
        for (logprob, *_), barred, wanted in zip(told["output_token_logprobs"], told["output_token_ids_logprobs"], film["greedy_logprobs"]):
            left = 1 - sum(math.exp(one[0]) for one in barred)  # the golden's are of what may come
            self.assertAlmostEqual(logprob - math.log(left), wanted, delta=1e-3, msg=name)
        again = self.said(server, entry, film)
        self.assertEqual(told["output_token_logprobs"], again["meta_info"]["output_token_logprobs"], name)
        self.assertGreater(again["meta_info"]["cached_tokens"], len(film["tokens"]) // 2, name)

    def test_every_family_through_generate(self):
        if not GOLDENS.exists():
            self.skipTest("the goldens of vision models are not here")
        root = pathlib.Path(tempfile.mkdtemp())
        try:
            for entry in FAMILIES:
                folder = film_folder(GOLDENS / ("mm-" + entry["name"]), entry, root / entry["name"])
                with self.subTest(entry["name"]), Server(model=folder) as server:
                    for film in entry["films"]:
                        self.check(server, entry, film)
        finally:
            shutil.rmtree(root)


if __name__ == "__main__":
    unittest.main()
