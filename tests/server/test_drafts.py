"""A server with a draft model, or a checkpoint that brings a layer to draft with: tokens and log-probabilities of one without, drafts that
come true, what cannot draft."""
import unittest

from harness import GOLDEN, MODEL, SOURCE, Server, in_parallel

ROUNDS = 100  # whether a draft pays is for the clock to say, so one that comes true is waited for


def bodies():
    """Every golden prompt, greedy and sampled with a seed; the second choice of a request has noise of its own."""
    for i, prompt in enumerate(GOLDEN["prompts"]):
        for sampling in ({"temperature": 0}, {"temperature": 0.9, "top_p": 0.95, "sampling_seed": i, "n": 2}):
            yield {"input_ids": prompt["tokens"], "return_logprob": True, "logprob_start_len": 0, "top_logprobs_num": 3,
                   "sampling_params": {**sampling, "max_new_tokens": 80, "ignore_eos": True}}


def told(reply):
    """What a client gets that must not depend on drafts."""
    meta = reply["meta_info"]
    return (reply["text"], reply["output_ids"],
            *(meta.get(key) for key in ("output_token_logprobs", "output_top_logprobs", "input_token_logprobs", "finish_reason")))


def answers(server):
    """To all of the bodies at once, so that drafted and other rows share batches."""
    wanted = list(bodies())
    replies = in_parallel(len(wanted), lambda i: server.generate(**wanted[i]))
    return [[told(choice) for choice in (reply if isinstance(reply, list) else [reply])] for reply in replies]


def drafting(model, **more):
    return Server("--speculative-algorithm", "draft", "--speculative-draft-model", str(model), **more)


class DraftModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Server() as server:
            cls.plain = answers(server)
            assert server.metric("espalier_spec_draft_tokens_total") == 0

    def alike_until(self, server, counter):
        for _ in range(ROUNDS):
            self.assertEqual(answers(server), self.plain)
            if server.metric(counter) > 0:
                return
        self.fail(f"{counter} is still 0")

    def test_the_model_as_its_own_draft_changes_no_answer_and_its_guesses_come_true(self):
        with drafting(MODEL) as server:
            self.alike_until(server, "espalier_spec_accepted_tokens_total")
            self.assertLessEqual(server.metric("espalier_spec_accepted_tokens_total"), server.metric("espalier_spec_draft_tokens_total"))

    def test_another_model_of_the_vocabulary_changes_no_answer(self):
        with drafting(MODEL.parent / "mistral-sliding") as server:
            self.alike_until(server, "espalier_spec_draft_tokens_total")

    def test_a_draft_model_of_another_vocabulary_is_refused_at_start(self):
        server = drafting(MODEL.parent / "llama2-untied-mha", wait=False)
        self.addCleanup(server.kill)
        self.assertEqual(server.process.wait(60), 2, server.text())
        self.assertIn("--speculative-draft-model has another vocabulary than the model: 288 ids instead of 320; a smaller model of the same "
                      "family would do", server.text())


def constrained():
    """Outputs of a form: guesses ride along where the form leaves a choice, what is forced comes at once."""
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "n": {"type": "integer"}}, "required": ["name", "n"]}
    for i, form in enumerate(({"json_schema": schema}, {"regex": "[a-z ]{20,60}"}, {"json_schema": schema})):
        yield {"text": "Say what you know.", "return_logprob": i == 2,
               "sampling_params": {**form, "temperature": 0.8 * (i % 2), "sampling_seed": 5, "max_new_tokens": 60}}


class OwnLayer(unittest.TestCase):
    """Checkpoints that bring a layer which predicts further tokens: with recurrent layers and without."""

    def test_the_layer_changes_no_answer_and_its_guesses_come_true(self):
        for name in ("nextn-glm4-moe", "nextn-qwen3-next", "nextn-mimo-v2", "nextn-glm4-moe.gguf"):
            model = SOURCE / "tests" / "data" / "goldens" / "nextn" / name
            with Server(model=model) as server:
                plain, formed = answers(server), [told(server.generate(**body))[:2] for body in constrained()]
            with Server("--speculative-algorithm", "NEXTN", "--speculative-num-steps", "3", "--speculative-num-draft-tokens", "3", model=model) as server:
                for _ in range(ROUNDS):
                    self.assertEqual(answers(server), plain, name)
                    self.assertEqual([told(server.generate(**body))[:2] for body in constrained()], formed, name)
                    if server.metric("espalier_spec_accepted_tokens_total") > 0:
                        break
                self.assertGreater(server.metric("espalier_spec_accepted_tokens_total"), 0, name)

    def test_a_checkpoint_without_one_is_refused_at_start(self):
        for word in ("NEXTN", "EAGLE"):
            server = Server("--speculative-algorithm", word, wait=False)
            self.addCleanup(server.kill)
            self.assertEqual(server.process.wait(60), 2, server.text())
            self.assertIn("needs a checkpoint with a layer that predicts further tokens, but models of this architecture bring none", server.text())


if __name__ == "__main__":
    unittest.main()
