"""Vision models through the running server: every golden's tokens and log-probabilities, whole and out of the cache.

All goldens where the whole set lies beside the checkout, else those in the repository.
"""
import json
import os
import pathlib
import unittest

from harness import SOURCE, Server
from picture_checks import PictureChecks

SHARED = pathlib.Path(os.environ.get("ESPALIER_SHARED", SOURCE.parent / "shared")) / "goldens" / "models"
OURS = SOURCE / "tests" / "data" / "goldens" / "models"
FOLDERS = sorted(p for p in (SHARED if SHARED.exists() else OURS).glob("mm-*") if (p / "golden.json").exists())


class PictureGoldens(PictureChecks, unittest.TestCase):
    def test_every_golden_through_generate(self):
        self.assertGreater(len(FOLDERS), 0)
        for folder in FOLDERS:
            golden = json.loads((folder / "golden.json").read_text())
            with self.subTest(golden["name"]), Server(model=folder) as server:
                for case in golden["cases"]:
                    if not all((folder / name).exists() for name in case["images"]):
                        continue
                    first = self.check_case(server, folder, golden, case, case["tokens_one_placeholder_per_image"], False)
                    again = self.check_case(server, folder, golden, case, case["tokens_one_placeholder_per_image"], True)
                    self.assertEqual(first["meta_info"]["output_token_logprobs"], again["meta_info"]["output_token_logprobs"])
        if not SHARED.exists():
            print(f"the goldens of vision models but {', '.join(f.name for f in FOLDERS)} are left out: they are not here")


if __name__ == "__main__":
    unittest.main()
