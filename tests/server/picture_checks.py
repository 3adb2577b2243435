"""What tests of golden vision models ask of a running server."""
import base64
import math


def data_url(path):
    return f"data:image/{path.suffix[1:]};base64,{base64.b64encode(path.read_bytes()).decode()}"


class PictureChecks:
    """For a unittest.TestCase."""

    def check_case(self, server, folder, golden, case, prompt, cached):
        """A golden's tokens and log-probabilities behind a prompt of ids, through /generate."""
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
        self.assertEqual(said["meta_info"]["prompt_tokens"], len(case["tokens"]))
        if cached and pictures:
            self.assertGreater(said["meta_info"]["cached_tokens"], len(case["tokens"]) // 2)
        return said
