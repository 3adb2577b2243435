"""lm-eval runs a small multiple-choice task (lm_eval/places.yaml) through /v1/completions with log-probabilities, and gives
the score that transformers gives on the same weights (lm_eval/scores.json, made by lm_eval/make_task.py), choice by choice."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from served import HERE, MODEL, NAME, Server, smollm2

FOLDER = HERE / "lm_eval"
QUESTIONS = [json.loads(line) for line in (FOLDER / "places.jsonl").read_text().splitlines()]
EXPECTED = json.loads((FOLDER / "scores.json").read_text())


def evaluate(server, **args):
    """What the harness says: its metrics, and for each question the scores of its choices."""
    with tempfile.TemporaryDirectory() as folder:
        task = (FOLDER / "places.yaml").read_text() + f"dataset_kwargs: {{data_files: {{test: {FOLDER / 'places.jsonl'}}}}}\n"
        pathlib.Path(folder, "places.yaml").write_text(task)
        told = {"model": NAME, "base_url": f"http://127.0.0.1:{server.port}/v1/completions", "num_concurrent": 4, "max_length": 512, **args}
        done = subprocess.run(
            [sys.executable, "-m", "lm_eval", "run", "--model", "local-completions", "--tasks", "places", "--include_path", folder,
             "--model_args", ",".join(f"{name}={value}" for name, value in told.items()), "--batch_size", "4",
             "--log_samples", "--output_path", f"{folder}/out"],
            capture_output=True, text=True, timeout=600, cwd=folder,
            env={**os.environ, "HF_HOME": f"{folder}/hf", "HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": "none"})
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        results, = pathlib.Path(folder, "out").rglob("results_*.json")
        samples, = pathlib.Path(folder, "out").rglob("samples_*.jsonl")
        rows = sorted((json.loads(line) for line in samples.read_text().splitlines()), key=lambda row: row["doc_id"])
        metrics = json.loads(results.read_text())["results"]["places"]
    return {name: metrics[f"{name},none"] for name in ("acc", "acc_norm")}, [
        [(float(value), greedy in (True, "True")) for (value, greedy), in row["resps"]] for row in rows]


def by_generate(server, question, choice):
    """The same score by our own route."""
    def count(text):
        return server.post("/tokenize", {"prompt": text, "add_special_tokens": False}).json["count"]

    begin = count(question)
    meta = server.generate(text=f"{question} {choice}", return_logprob=True, logprob_start_len=0,
                           sampling_params={"max_new_tokens": 0})["meta_info"]
    return sum(value for value, *_ in meta["input_token_logprobs"][begin:])


class LmEval(unittest.TestCase):
    def compare(self, server, scores, delta):
        for question, told in zip(QUESTIONS, scores):
            for choice, (value, _) in zip(question["choices"], told):
                self.assertAlmostEqual(value, by_generate(server, question["question"], choice), delta=delta)

    def test_the_score_is_that_of_transformers(self):
        with Server("--served-model-name", NAME) as server:
            metrics, scores = evaluate(server)  # by itself it asks /tokenizer_info, and then tokenises here
            self.assertEqual(metrics, {"acc": EXPECTED["acc"], "acc_norm": EXPECTED["acc_norm"]})
            self.assertEqual(len(scores), len(QUESTIONS))
            for ours, theirs in zip(scores, EXPECTED["scores"]):
                for (value, greedy), (expected, expected_greedy) in zip(ours, theirs, strict=True):
                    self.assertAlmostEqual(value, expected, delta=1e-3)
                    self.assertEqual(greedy, expected_greedy)
            self.compare(server, scores, 1e-4)
            print(f"lm-eval on {MODEL.name}: {metrics}, transformers: acc {EXPECTED['acc']}, acc_norm {EXPECTED['acc_norm']}; largest "
                  f"difference of a choice {max(abs(a - b) for x, y in zip(scores, EXPECTED['scores']) for (a, _), (b, _) in zip(x, y)):.2g}")

    def test_a_model_that_speaks_scores_better_than_chance(self):
        with Server("--served-model-name", NAME, "--threads", "2", model=smollm2()) as server:
            metrics, scores = evaluate(server)
            print(f"lm-eval on smollm2-135m: {metrics}")
            self.assertGreater(metrics["acc"], 0.25)
            self.compare(server, scores, 1e-4)


if __name__ == "__main__":
    unittest.main()
