"""Several processes that compute one model: their answers are one process's, bit for bit, with tree, constraints, drafts, recurrent
states, adapters, pictures, disk and retraction. A rank that ends, hangs or differs ends the group with one line."""
import json
import os
import pathlib
import signal
import socket
import tempfile
import time
import unittest

from harness import MODEL, Server, children_of
from picture_checks import data_url
from test_devices import answers, mixed_bodies
from test_lora import ADMIN, asked, goldens_of, model_folder, some_adapter

DEFAULT = ("--activations", "int8")
MODELS = MODEL.parent


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_gone(pids, seconds=10):
    end = time.monotonic() + seconds
    while any(pathlib.Path(f"/proc/{pid}/stat").exists() and
              pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z" for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class SameAsOne:
    """device: the flags of what computes, and how its ranks say that they talk."""
    device, talk = (), "shared memory"

    def same_as_one(self, *flags, model=MODEL, wanted=None, ranks=((2,), (4,)), kinds=((), DEFAULT)):
        wanted = wanted or list(mixed_bodies())
        flags = (*flags, *self.device)
        for kind in kinds:
            with Server(*kind, *flags, model=model) as one:
                expected = answers(one, wanted)
            for size, *more in ranks:
                with Server(*kind, *flags, "--tp-size", str(size), *more, model=model) as server:
                    info = server.get("/get_server_info").json
                    self.assertEqual((info["tp_size"], info["ranks_talk"]), (size, self.talk))
                    size *= info["pp_size"]
                    self.assertEqual(answers(server, wanted), expected, (size, kind))
                    self.assertEqual(answers(server, wanted), expected, (size, kind, "out of the tree"))
                    self.assertGreater(server.metric("espalier_prefix_cache_hit_tokens_total"), 0)
                    others = children_of(server.process.pid)
                    self.assertEqual(len(others), size - 1)
                    self.assertEqual(server.stop(), 0, server.text())
                    self.assertTrue(wait_until_gone(others))


class Ranks(SameAsOne, unittest.TestCase):
    def test_a_batch_of_tokens_chosen_in_every_way_is_one_processs(self):
        self.same_as_one(ranks=((2,), (4,), (8,)))

    def test_drafts_change_nothing(self):
        self.same_as_one("--speculative-algorithm", "draft", "--speculative-draft-model", str(MODEL), kinds=((),))
        self.same_as_one("--speculative-algorithm", "tree", ranks=((2,),))

    def test_guesses_of_the_models_own_layer_change_nothing(self):
        self.same_as_one("--speculative-algorithm", "NEXTN", model=MODELS.parent / "nextn" / "nextn-glm4-moe",
                         wanted=list(mixed_bodies())[:6], ranks=((2,), (4, "--ep-size", "4")))

    def test_experts_are_shared_by_columns_or_by_id(self):
        model = MODELS / "glm4moe-groups"
        wanted = [{"input_ids": list(range(3 + i, 60 + 2 * i)), "sampling_params": {"temperature": 0.5 * i, "sampling_seed": i, "max_new_tokens": 9}} for i in range(5)]
        self.same_as_one(model=model, wanted=wanted, ranks=((2,), (2, "--enable-expert-parallel"), (8, "--ep-size", "8")))
        self.same_as_one(model=model, wanted=wanted, ranks=((2, "--ep-size", "2", "--pp-size", "2"),))
        self.same_as_one("--speculative-algorithm", "NEXTN", model=MODELS.parent / "nextn" / "nextn-glm4-moe",
                         wanted=list(mixed_bodies())[:6], ranks=((2, "--ep-size", "2", "--pp-size", "2"),))

    def test_stages_of_layers_change_nothing(self):
        self.same_as_one(ranks=((1, "--pp-size", "2"), (2, "--pp-size", "2")))
        model = MODELS / "n26-qwen3-next"
        wanted = [{"input_ids": list(range(3 + i, 60)), "sampling_params": {"temperature": 0, "max_new_tokens": 6}} for i in range(4)]
        self.same_as_one(model=model, wanted=wanted, ranks=((1, "--pp-size", "3"), (2, "--pp-size", "2")))
        self.same_as_one("--speculative-algorithm", "NEXTN", model=MODELS.parent / "nextn" / "nextn-glm4-moe",
                         wanted=list(mixed_bodies())[:6], ranks=((1, "--pp-size", "2"), (2, "--pp-size", "2")))

    def test_a_stage_that_keeps_nothing_of_tokens_makes_no_pool_smaller(self):
        """The first of three stages has recurrent layers alone."""
        model = MODELS / "n26-qwen3-next"
        sizes = []
        for flags in ((), ("--pp-size", "3")):
            with Server(*flags, model=model) as server:
                info = server.get("/get_server_info").json
                sizes.append((info["max_total_num_tokens"], info["max_mamba_cache_size"]))
        self.assertEqual(*sizes)

    def test_recurrent_states_are_shared_by_heads(self):
        model = MODELS / "n26-qwen3-next"
        wanted = [{"input_ids": list(range(3 + i, 60)), "sampling_params": {"temperature": 0, "max_new_tokens": 6}} for i in range(4)]
        self.same_as_one(model=model, wanted=wanted, ranks=((2,), (3,)))

    def test_latent_attention_is_shared_by_heads(self):
        for name in ("deepseek-v3", "n26-deepseek-v3.2"):
            if (MODELS / name).exists():
                self.same_as_one(model=MODELS / name, wanted=list(mixed_bodies())[:8], ranks=((2,),))

    def test_a_small_pool_that_retracts_and_keys_of_eight_bits_change_nothing(self):
        self.same_as_one("--max-total-tokens", "256", "--kv-cache-dtype", "int8", ranks=((3,),))

    def test_what_is_kept_on_disk_is_the_same_at_every_number_of_ranks(self):
        body = {"input_ids": list(range(3, 100)), "sampling_params": {"temperature": 0, "max_new_tokens": 4}}
        for model, sizes in ((MODEL, (2, 1, 4)), (MODELS / "gemma3-text", (1, 3)), (MODELS / "n26-qwen3-next", (2, 2))):
            for kind in ((), (*DEFAULT, "--kv-cache-dtype", "int8")):
                with tempfile.TemporaryDirectory() as folder:
                    first = None
                    for size in sizes:
                        with Server(*kind, "--tp-size", str(size), "--cache-dir", folder, model=model) as server:
                            reply = server.generate(**body)
                            if first is not None:
                                self.assertEqual(reply["output_ids"], first["output_ids"])
                                self.assertGreaterEqual(reply["meta_info"]["cached_tokens"], 64, (model, size, server.text()))
                            first = reply
                            self.assertEqual(server.stop(), 0, server.text())

    def test_evicted_prefixes_come_back_from_the_first_ranks_memory(self):
        wanted = [{"input_ids": list(range(3 + i, 120 + i)), "sampling_params": {"temperature": 0, "max_new_tokens": 4}} for i in range(12)]
        with Server() as one:
            expected = answers(one, wanted)
        with Server("--tp-size", "2", "--max-total-tokens", "512", "--cache-host", "32M", "--no-cache-disk") as server:
            for _ in range(3):
                self.assertEqual([answers(server, [body])[0] for body in wanted], expected)
            self.assertGreater(server.metric("espalier_prefix_cache_disk_loaded_tokens_total"), 500)

    def test_pictures_are_read_by_all(self):
        folder = next(iter(sorted(MODELS.glob("mm-*"))))
        golden = json.loads((folder / "golden.json").read_text())
        case = next(c for c in golden["cases"] if c["images"] and all((folder / name).exists() for name in c["images"]))
        body = {"input_ids": case["tokens_one_placeholder_per_image"], "image_data": [data_url(folder / name) for name in case["images"]],
                "return_logprob": True, "sampling_params": {"temperature": 0, "max_new_tokens": 6, "ignore_eos": True}}
        # 8: more than there are heads, so that the first rank attends to nothing
        self.same_as_one(model=folder, wanted=[body], ranks=((2,), (8,), (1, "--pp-size", "2")))


class RanksOnDevices(SameAsOne, unittest.TestCase):
    """Each rank computes on a device of its own."""
    device, talk = ("--device", "emu"), "shared memory, devices by the emulated device"

    def test_a_batch_of_tokens_chosen_in_every_way_is_one_devices(self):
        self.same_as_one(ranks=((2,), (2, "--pp-size", "2")))
        self.same_as_one("--disable-overlap-schedule", ranks=((3,),), kinds=((),))

    def test_exact_mode_is_the_cpus(self):
        wanted = list(mixed_bodies())
        with Server("--activations", "f32") as cpu, Server("--activations", "f32", "--tp-size", "2", *self.device) as ranks:
            self.assertEqual(answers(ranks, wanted), answers(cpu, wanted))

    def test_guesses_of_the_models_own_layer_and_experts_by_id_change_nothing(self):
        self.same_as_one("--speculative-algorithm", "NEXTN", model=MODELS.parent / "nextn" / "nextn-glm4-moe",
                         wanted=list(mixed_bodies())[:6], ranks=((4, "--ep-size", "4"),), kinds=((),))

    def test_recurrent_states_a_small_pool_and_a_disk_change_nothing(self):
        wanted = [{"input_ids": list(range(3 + i, 60)), "sampling_params": {"temperature": 0, "max_new_tokens": 6}} for i in range(4)]
        self.same_as_one(model=MODELS / "n26-qwen3-next", wanted=wanted, ranks=((2,),))
        self.same_as_one("--max-total-tokens", "256", "--kv-cache-dtype", "int8", ranks=((3,),), kinds=((),))
        body = {"input_ids": list(range(3, 100)), "sampling_params": {"temperature": 0, "max_new_tokens": 4}}
        with tempfile.TemporaryDirectory() as folder:
            told = []
            for size in (2, 1):
                with Server(*self.device, "--tp-size", str(size), "--cache-dir", folder) as server:
                    told.append(server.generate(**body))
                    self.assertEqual(server.stop(), 0, server.text())
        self.assertEqual(told[1]["output_ids"], told[0]["output_ids"])
        self.assertGreaterEqual(told[1]["meta_info"]["cached_tokens"], 64)


@unittest.skipUnless(os.environ.get("ESPALIER_LONG_TESTS"), "left out without ESPALIER_LONG_TESTS")
class AllOfRanksOnDevices(Ranks):
    device, talk = RanksOnDevices.device, RanksOnDevices.talk


class Adapters(unittest.TestCase):
    """Adapters that come and go while several ranks compute."""

    def answers(self, folder, *flags):
        adapters = goldens_of("llama3-tied-gqa")
        told = []
        with Server(*flags, "--admin-api-key", "secret", "--lora-dir", str(folder), model=model_folder("llama3-tied-gqa"),
                    *[f"--lora-paths={name}={path}" for name, (path, _) in adapters.items()]) as server:
            names = [*adapters, None]
            for seed in range(2):
                body = {"lora_name": "comes", "lora_path": str(seed)}
                self.assertEqual(server.post("/load_lora_adapter", body, headers=ADMIN).status, 200)
                wanted = asked([[3 + i, 9, 40, 77 + i, 12][:2 + i % 4] for i in range(12)], 8, return_logprob=True)
                now = [*names, "comes"]
                wanted["lora_path"] = [now[i % len(now)] for i in range(12)]
                reply = server.post("/generate", wanted)
                self.assertEqual(reply.status, 200, reply.body)
                told.append([(one["output_ids"], one["meta_info"]["output_token_logprobs"]) for one in reply.json])
                self.assertEqual(server.post("/unload_lora_adapter", {"lora_name": "comes"}, headers=ADMIN).status, 200)
        return told

    def test_answers_are_one_processs_bits(self):
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(2):
                some_adapter(pathlib.Path(folder) / str(seed), seed)
            for kind in ((), DEFAULT, ("--device", "emu")):
                self.assertEqual(self.answers(folder, *kind, "--tp-size", "2"), self.answers(folder, *kind))


class Hosts(unittest.TestCase):
    """Two hosts, here two processes on one, that find one another by SGLang's flags."""

    def pair(self, size, first=(), second=(), wait=True):
        address = f"127.0.0.1:{free_port()}"
        flags = ("--tp-size", str(size), "--nnodes", "2", "--dist-init-addr", address)
        other = Server(*flags, "--node-rank", "1", *second, wait=False)
        self.addCleanup(other.kill)
        one = Server(*flags, *first, wait=False)
        self.addCleanup(one.kill)
        if wait:
            one.wait_ready()
        return one, other

    def test_answers_are_one_processs_over_tcp(self):
        wanted = list(mixed_bodies())
        with Server(*DEFAULT) as alone:
            expected = answers(alone, wanted)
        for size in (2, 4):
            one, other = self.pair(size, first=DEFAULT, second=DEFAULT)
            self.assertIn("tcp", one.get("/get_server_info").json["ranks_talk"])
            self.assertEqual(answers(one, wanted), expected)
            self.assertEqual(one.stop(), 0, one.text())
            self.assertEqual(other.process.wait(10), 0, other.text())

    def test_ranks_that_compute_otherwise_do_not_come_together(self):
        one, other = self.pair(2, second=DEFAULT, wait=False)
        began = time.monotonic()
        self.assertNotEqual(one.process.wait(30), 0)
        self.assertNotEqual(other.process.wait(30), 0)
        self.assertLess(time.monotonic() - began, 20)
        for server in (one, other):
            self.assertRegex(server.text(), r"espalier: .*int8.*\n")

    def test_a_host_that_dies_ends_the_group_with_a_line(self):
        one, other = self.pair(2)
        other.process.kill()
        self.assertNotEqual(one.process.wait(12), 0)
        self.assertRegex(one.text(), r"rank 1 of 2")

    def test_a_host_that_hangs_is_named(self):
        one, other = self.pair(2)
        other.process.send_signal(signal.SIGSTOP)
        try:
            self.assertNotEqual(one.process.wait(20), 0)
            self.assertRegex(one.text(), r"rank 1 of 2")
        finally:
            other.process.send_signal(signal.SIGCONT)


class Ends(unittest.TestCase):
    def test_a_rank_that_is_killed_ends_the_server_with_one_line(self):
        for idle in (True, False):
            with Server("--tp-size", "3") as server:
                others = children_of(server.process.pid)
                if not idle:
                    body = {"input_ids": [3, 4, 5], "stream": True, "sampling_params": {"max_new_tokens": 4000, "ignore_eos": True}}
                    stream = server.open_stream("/generate", body)
                    self.addCleanup(stream.close)
                    stream.recv(100)
                os.kill(others[0], signal.SIGKILL)
                self.assertNotEqual(server.process.wait(10), 0)
                lines = [line for line in server.text().splitlines() if "rank 1 of 3" in line]
                self.assertEqual(len(lines), 1, server.text())
                self.assertTrue(wait_until_gone(others))

    def test_ranks_end_with_a_server_that_is_killed(self):
        with Server("--tp-size", "3") as server:
            others = children_of(server.process.pid)
            server.process.kill()
            self.assertTrue(wait_until_gone(others))

    def test_ctrl_c_drains_once(self):
        server = Server("--tp-size", "2")
        self.addCleanup(server.kill)
        others = children_of(server.process.pid)
        for pid in others:
            os.kill(pid, signal.SIGINT)  # as a terminal does, to all
        self.assertEqual(server.stop(signal.SIGINT), 0, server.text())
        self.assertTrue(wait_until_gone(others))


class Refused(unittest.TestCase):
    def refusal(self, *flags, model=MODEL):
        server = Server(*flags, wait=False, model=model)
        self.addCleanup(server.kill)
        self.assertNotEqual(server.process.wait(timeout=60), 0)
        return server.text()

    def test_numbers_that_do_not_fit_are_refused_with_the_flag(self):
        self.assertIn("--tp-size", self.refusal("--tp-size", "0"))
        self.assertIn("--tp-size", self.refusal("--tp-size", "3", "--nnodes", "2", "--dist-init-addr", "127.0.0.1:1"))
        self.assertIn("--node-rank", self.refusal("--tp-size", "2", "--nnodes", "2", "--node-rank", "2", "--dist-init-addr", "127.0.0.1:1"))
        self.assertIn("--ep-size", self.refusal("--tp-size", "4", "--ep-size", "3"))
        self.assertIn("--dist-init-addr", self.refusal("--tp-size", "2", "--nnodes", "2"))

    def test_several_models_are_refused(self):
        self.assertIn("several ranks", self.refusal("--tp-size", "2", "--model", str(MODEL)))


if __name__ == "__main__":
    unittest.main()
