"""The default model against transformers on the dequantised weights: tests/data/transformers, made by
tools/goldens/make_smollm2_greedy.py. Left out, and said so, where the model's package cannot be had."""
import hashlib
import json
import pathlib
import subprocess
import unittest

from harness import BINARY, SOURCE, Server

EXPECTED = json.loads((SOURCE / "tests/data/transformers/smollm2-greedy.json").read_text())


def default_model():
    pull = subprocess.run([BINARY, "pull", "smollm2-135m"], capture_output=True, text=True, timeout=600)
    if pull.returncode != 0:
        print(f"left out: smollm2-135m cannot be had here: {pull.stderr.strip()[-300:]}")
        raise unittest.SkipTest("no default model")
    path = pathlib.Path(pull.stdout.strip().splitlines()[-1])
    assert hashlib.sha256(path.read_bytes()).hexdigest() == EXPECTED["sha256"], f"{path} is another file than the expectations"
    return path


def equal_tokens(server, case):
    """How many of the expected ids come out, from the text prompt and through /v1/completions as through /generate."""
    length = len(case["output_ids"])
    completion = server.post("/v1/completions", {"model": "default", "prompt": case["prompt"], "max_tokens": length, "temperature": 0,
                                                 "return_token_ids": True}).json
    native = server.generate(text=case["prompt"], sampling_params={"temperature": 0, "max_new_tokens": length})
    assert completion["usage"]["prompt_tokens"] == len(case["ids"]), case["prompt"]
    assert completion["choices"][0]["text"] == native["text"]
    same = 0
    for got, want in zip(native["output_ids"], case["output_ids"]):
        if got != want:
            break
        same += 1
    return same


class Transformers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = default_model()

    def test_exact_mode_continues_every_prompt_as_transformers_does(self):
        with Server("--threads", "2", model=self.model) as server:
            long = 0
            for case in EXPECTED["cases"]:
                same = equal_tokens(server, case)
                self.assertEqual(same, len(case["output_ids"]), f"{case['prompt']!r}; smallest lead {case['smallest_lead']}")
                long += same >= 30
            self.assertGreaterEqual(long, 20)

    def test_int8_mode_stays_close(self):
        with Server("--threads", "2", "--activations", "int8", model=self.model) as server:
            equal = [equal_tokens(server, case) for case in EXPECTED["cases"]]
        whole = sum(same == len(case["output_ids"]) for same, case in zip(equal, EXPECTED["cases"]))
        print(f"int8 activations: {whole} of {len(equal)} continuations whole, "
              f"{sum(equal)} of {sum(len(c['output_ids']) for c in EXPECTED['cases'])} tokens before the first other one")
        self.assertGreaterEqual(whole, 4)
        self.assertGreaterEqual(sum(same >= 8 for same in equal), 20)


if __name__ == "__main__":
    unittest.main()
