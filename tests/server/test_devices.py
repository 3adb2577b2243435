"""A server that computes on the emulated device: in exact mode its answers are the CPU's, with tree, constraints, drafts, disk and
recurrent states, LoRA adapters and pictures; in the default mode they do not depend on what else it computes. A device that is not
there is refused."""
import json
import os
import pathlib
import tempfile
import unittest

from harness import GOLDEN, MODEL, SOURCE, Server, in_parallel
from picture_checks import data_url
from test_lora import ADMIN, asked, goldens_of, model_folder, some_adapter

os.environ.setdefault("ESPALIER_EMU_STRICT", "1")  # src/device/library/emu_memory.h
EXACT = ("--activations", "f32")
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}}, "required": ["name", "age"]}


def bodies():
    for i, prompt in enumerate(GOLDEN["prompts"]):
        for sampling in ({"temperature": 0}, {"temperature": 0.9, "top_p": 0.95, "sampling_seed": i, "n": 2}):
            yield {"input_ids": prompt["tokens"], "return_logprob": True, "logprob_start_len": 0, "top_logprobs_num": 2,
                   "sampling_params": {**sampling, "max_new_tokens": 12, "ignore_eos": True}}
    yield {"text": "a person:", "sampling_params": {"temperature": 0, "max_new_tokens": 24, "json_schema": json.dumps(SCHEMA)}}


def mixed_bodies():
    """Requests of one batch whose tokens are chosen in every way: by the device, with masks or without, and from logits that come down."""
    ways = [
        {"temperature": 0},
        {"temperature": 0.8, "sampling_seed": 7},
        {"temperature": 1.3, "sampling_seed": 8, "n": 3},
        {"temperature": 0, "min_new_tokens": 6, "stop_token_ids": list(range(3, 300, 2)), "n": 2},
        {"temperature": 1, "sampling_seed": 9, "min_new_tokens": 9, "ignore_eos": False},
        {"temperature": 1, "sampling_seed": 10, "regex": "(yes|no|maybe so|[a-z]{3,9} [0-9]+)", "n": 2},
        {"temperature": 0.7, "sampling_seed": 11, "json_schema": json.dumps(SCHEMA)},
        {"temperature": 0.7, "sampling_seed": 12, "regex": "[a-c ]+", "top_p": 0.9},
        {"temperature": 0, "regex": "[a-z]+", "frequency_penalty": 0.7},
        {"temperature": 1, "sampling_seed": 13, "logit_bias": {"17": 6.0, "23": -100}},
        {"temperature": 1, "sampling_seed": 14, "top_k": 5},
        {"temperature": 1, "sampling_seed": 15, "min_p": 0.02, "presence_penalty": 0.5},
        {"temperature": 0.9, "sampling_seed": 16, "repetition_penalty": 1.2},
    ]
    prompts = [p["tokens"] for p in GOLDEN["prompts"]]
    for i, way in enumerate(ways):
        body = {"input_ids": prompts[i % len(prompts)][i:] or prompts[0], "sampling_params": {"max_new_tokens": 14, **way}}
        yield body
        if i % 4 == 1:
            yield {**body, "return_logprob": True, "top_logprobs_num": 3}


def told(reply):
    meta = reply["meta_info"]
    return reply.get("text"), reply["output_ids"], meta.get("output_token_logprobs"), meta.get("input_token_logprobs")


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

    def test_a_batch_of_tokens_chosen_in_every_way_is_the_cpus(self):
        self.same_as_cpu(wanted=list(mixed_bodies()))

    def test_guesses_that_the_device_draws_change_nothing(self):
        self.same_as_cpu("--speculative-algorithm", "draft", "--speculative-draft-model", str(MODEL), wanted=list(mixed_bodies()))

    def test_guesses_of_the_models_own_layer_change_nothing(self):
        self.same_as_cpu("--speculative-algorithm", "NEXTN", model=MODEL.parent.parent / "nextn" / "nextn-glm4-moe", wanted=list(mixed_bodies())[:6])

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

    def plain_bodies(self):
        for i in range(14):
            sampling = {"temperature": 0} if i % 3 == 0 else {"temperature": 1.0, "sampling_seed": i}
            if i % 4 == 1:
                sampling["stop"] = ["e", "a"]
            if i % 5 == 2:
                sampling["min_new_tokens"] = 6
            yield {"input_ids": list(range(5 + i, 40 + 3 * i)), "sampling_params": {**sampling, "max_new_tokens": 8 + 5 * (i % 4), "ignore_eos": i % 2 == 0}}

    def test_steps_begun_ahead_of_their_plan_change_nothing(self):
        wanted = list(self.plain_bodies())
        with Server(*EXACT) as cpu:
            expected = answers(cpu, wanted)
        with Server(*EXACT, "--device", "emu", "--disable-overlap-schedule") as server:
            self.assertEqual(answers(server, wanted), expected)
            self.assertEqual(server.metric("espalier_ahead_rows_total"), 0)
        for flags in ((), ("--max-total-tokens", "400"), ("--max-running-requests", "3")):
            with Server(*EXACT, "--device", "emu", *flags) as server:
                gone = server.open_stream("/generate", {"input_ids": [3, 4, 5], "stream": True, "sampling_params": {"max_new_tokens": 400, "ignore_eos": True}})
                self.assertEqual(answers(server, wanted), expected, flags)
                gone.close()
                self.assertEqual([answers(server, [body])[0] for body in wanted], expected, "one by one")
                begun, dropped = server.metric("espalier_ahead_rows_total"), server.metric("espalier_ahead_rows_dropped_total")
                self.assertGreater(begun, 50)
                self.assertLess(dropped, begun / 2)

    def test_evicted_prefixes_come_back_from_the_hosts_memory(self):
        wanted = [{"input_ids": list(range(3 + i, 120 + i)), "sampling_params": {"temperature": 0, "max_new_tokens": 4}} for i in range(12)]
        with Server(*EXACT) as cpu:
            expected = answers(cpu, wanted)
        with Server(*EXACT, "--device", "emu", "--max-total-tokens", "512", "--cache-host", "32M", "--no-cache-disk") as server:
            for _ in range(3):
                self.assertEqual([answers(server, [body])[0] for body in wanted], expected)
            self.assertGreater(server.metric("espalier_prefix_cache_disk_loaded_tokens_total"), 500)
            self.assertGreater(server.metric("espalier_prefix_cache_disk_host_bytes"), 0)

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


class Adapters(unittest.TestCase):
    """Adapters that come and go, several in one batch, pooled and replaced matrices among them: the CPU's answers."""

    def answers(self, folder, *flags):
        adapters = goldens_of("llama3-tied-gqa")
        told = []
        with Server(*EXACT, *flags, "--admin-api-key", "secret", "--lora-dir", str(folder), model=model_folder("llama3-tied-gqa"),
                    *[f"--lora-paths={name}={path}" for name, (path, _) in adapters.items()]) as server:
            self.assertEqual(server.get("/get_server_info").json["device"], "emu" if flags else "cpu")
            names = [*adapters, None]

            def together(names):
                prompts = [[3 + i, 9, 40, 77 + i, 12][:2 + i % 4] for i in range(12)]
                body = asked(prompts, 8, return_logprob=True)
                body["lora_path"] = [names[i % len(names)] for i in range(12)]
                reply = server.post("/generate", body)
                self.assertEqual(reply.status, 200, reply.body)
                return [(one["output_ids"], one["meta_info"]["output_token_logprobs"]) for one in reply.json]

            told.append(together(names))
            for seed in range(3):
                body = {"lora_name": "comes", "lora_path": str(seed)}
                self.assertEqual(server.post("/load_lora_adapter", body, headers=ADMIN).status, 200)
                told.append(together([*names, "comes"]))
                self.assertEqual(server.post("/unload_lora_adapter", {"lora_name": "comes"}, headers=ADMIN).status, 200)
                self.assertEqual(server.post("/generate", asked([3, 9], 1, "comes")).status, 404)
        self.assertEqual(len({json.dumps(one) for one in told[1:]}), 3, "the three that came differ")
        return told

    def test_answers_are_the_cpus_bits(self):
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(3):
                some_adapter(pathlib.Path(folder) / str(seed), seed)
            self.assertEqual(self.answers(folder, "--device", "emu"), self.answers(folder))


class Pictures(unittest.TestCase):
    def test_the_tower_of_a_picture_gives_the_cpus_bits(self):
        folder = next(iter(sorted((SOURCE / "tests" / "data" / "goldens" / "models").glob("mm-*"))))
        golden = json.loads((folder / "golden.json").read_text())
        case = next(c for c in golden["cases"] if c["images"] and all((folder / name).exists() for name in c["images"]))
        body = {"input_ids": case["tokens_one_placeholder_per_image"], "image_data": [data_url(folder / name) for name in case["images"]],
                "return_logprob": True, "sampling_params": {"temperature": 0, "max_new_tokens": 6, "ignore_eos": True}}

        def told(*flags):
            with Server(*EXACT, *flags, model=folder) as server:
                reply = server.generate(**body)
                if flags:
                    self.assertNotIn("the tower is computed on the CPU", server.text())
                return reply["output_ids"], reply["meta_info"]["output_token_logprobs"]

        self.assertEqual(told("--device", "emu"), told())


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
