"""A server that computes on the emulated device: in exact mode its answers are the CPU's, with tree, constraints, drafts, disk and
recurrent states; in the default mode they do not depend on what else it computes. A device that is not there is refused."""
import json
import tempfile
import unittest

from harness import GOLDEN, MODEL, Server, in_parallel

EXACT = ("--activations", "f32")
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}}, "required": ["name", "age"]}


def bodies():
    for i, prompt in enumerate(GOLDEN["prompts"]):
        for sampling in ({"temperature": 0}, {"temperature": 0.9, "top_p": 0.95, "sampling_seed": i, "n": 2}):
            yield {"input_ids": prompt["tokens"], "return_logprob": True, "logprob_start_len": 0, "top_logprobs_num": 2,
                   "sampling_params": {**sampling, "max_new_tokens": 12, "ignore_eos": True}}
    yield {"text": "a person:", "sampling_params": {"temperature": 0, "max_new_tokens": 24, "json_schema": json.dumps(SCHEMA)}}


def told(reply):
    meta = reply["meta_info"]
    return reply["text"], reply["output_ids"], meta.get("output_token_logprobs"), meta.get("input_token_logprobs")


def answers(server, wanted):
    replies = in_parallel(len(wanted), lambda i: server.generate(**wanted[i]))
    return [[told(choice) for choice in (reply if isinstance(reply, list) else [reply])] for reply in replies]


class EmulatedDevice(unittest.TestCase):
    def same_as_cpu(self, *flags, model=MODEL, wanted=None):
        wanted = wanted or list(bodies())
        with Server(*EXACT, *flags, model=model) as cpu:
            expected = answers(cpu, wanted)
        with Server(*EXACT, *flags, "--device", "emu", model=model) as server:
            self.assertEqual(server.get("/get_server_info").json["device"], "emu")
            self.assertEqual(answers(server, wanted), expected)
            self.assertEqual(answers(server, wanted), expected, "out of the tree")
            self.assertGreater(server.metric("espalier_prefix_cache_hit_tokens_total"), 0)

    def test_answers_are_the_cpus_bits(self):
        self.same_as_cpu()

    def test_in_the_default_mode_an_answer_is_the_same_alone_and_in_company(self):
        wanted = list(bodies())
        with Server("--device", "emu") as server:
            alone = [answers(server, [body])[0] for body in wanted]
        with Server("--device", "emu") as server:
            self.assertEqual(answers(server, wanted), alone)
            self.assertEqual(answers(server, wanted), alone, "out of the tree")

    def test_keys_of_eight_bits_and_drafts_from_the_tree_change_nothing(self):
        self.same_as_cpu("--kv-cache-dtype", "int8", "--speculative-algorithm", "tree")

    def test_recurrent_states_are_kept_and_found_again(self):
        wanted = [{"input_ids": list(range(3 + i, 60)), "sampling_params": {"temperature": 0, "max_new_tokens": 6}} for i in range(4)]
        self.same_as_cpu(model=MODEL.parent / "n26-qwen3-next", wanted=wanted)

    def test_a_small_pool_that_retracts_and_a_disk_change_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            self.same_as_cpu("--max-total-tokens", "256", "--cache-dir", folder, "--cache-disk", "64M")

    def test_a_restart_finds_its_prefixes_on_disk(self):
        body = {"input_ids": list(range(3, 100)), "sampling_params": {"temperature": 0, "max_new_tokens": 4}}
        with tempfile.TemporaryDirectory() as folder:
            with Server(*EXACT, "--device", "emu", "--cache-dir", folder) as server:
                first = server.generate(**body)
                server.stop()
            with Server(*EXACT, "--device", "emu", "--cache-dir", folder) as server:
                again = server.generate(**body)
            self.assertEqual(again["output_ids"], first["output_ids"])
            self.assertGreaterEqual(again["meta_info"]["cached_tokens"], 80)


class Refused(unittest.TestCase):
    def refusal(self, *flags):
        server = Server(*flags, wait=False)
        self.assertNotEqual(server.process.wait(timeout=60), 0)
        self.addCleanup(server.log.close)
        return server.text()

    def test_a_word_that_is_no_device_is_refused_with_those_there_are(self):
        self.assertIn("auto, cpu, cuda", self.refusal("--device", "tpu"))

    def test_a_device_that_is_not_there_is_refused_with_a_way_out(self):
        text = self.refusal("--device", "emu:7")
        self.assertIn("there is no emu device 7", text)


if __name__ == "__main__":
    unittest.main()
