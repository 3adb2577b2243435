"""LoRA adapters of a running server: goldens, mixtures in one batch, names, loading and dropping, the folder, limits."""
import json
import pathlib
import shutil
import struct
import tempfile
import threading
import time
import unittest

from harness import MODEL, SOURCE, Server, eventually

SHARED = None
for place in (pathlib.Path(__import__("os").environ.get("ESPALIER_SHARED", SOURCE.parent / "shared")),):
    if (place / "goldens" / "lora").exists():
        SHARED = place / "goldens"
OWN = SOURCE / "tests" / "data" / "goldens"
ADMIN = {"Authorization": "Bearer secret"}


def model_folder(name):
    return (OWN if (OWN / "models" / name).exists() else SHARED) / "models" / name


def goldens_of(base):
    """Folders of adapters for that model, by name, with their goldens."""
    found = {}
    for root in (OWN, SHARED):
        for folder in sorted((root / "lora").iterdir()) if root else ():
            golden = json.loads((folder / "golden.json").read_text())
            if golden["base"] == f"models/{base}":
                found[folder.name] = (folder, golden)
    return found


def write_adapter(folder, factors, alpha=8, rank=4, **config):
    """A PEFT folder out of {module: (A, B)}, lists of rows of floats."""
    folder.mkdir(parents=True, exist_ok=True)
    head, data = {}, b""
    for module, (a, b) in factors.items():
        for kind, rows in (("A", a), ("B", b)):
            raw = b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows)
            head[f"base_model.model.{module}.lora_{kind}.weight"] = {
                "dtype": "F32", "shape": [len(rows), len(rows[0])], "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
    text = json.dumps(head).encode()
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": rank, "lora_alpha": alpha, **config}))
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return folder


def some_adapter(folder, seed, hidden=64, outputs=64, rank=4, module="model.layers.0.self_attn.q_proj", **config):
    import random
    draw = random.Random(seed)
    a = [[draw.gauss(0, 0.3) for _ in range(hidden)] for _ in range(rank)]
    b = [[draw.gauss(0, 0.5) for _ in range(rank)] for _ in range(outputs)]
    return write_adapter(folder, {module: (a, b)}, rank=rank, **config)


def asked(prompt, count, adapter=None, **more):
    body = {"input_ids": prompt, "sampling_params": {"temperature": 0, "max_new_tokens": count, "ignore_eos": True}, **more}
    return {**body, "lora_path": adapter} if adapter else body


class Goldens(unittest.TestCase):
    def check(self, base, *flags, exact=True):
        adapters = goldens_of(base)
        with Server(*flags, *[f"--lora-paths={name}={folder}" for name, (folder, _) in adapters.items()],
                    model=model_folder(base)) as server:
            for name, (_, golden) in adapters.items():
                for prompt in golden["prompts"]:
                    if "greedy" not in prompt or (prompt["min_margin"] < 1e-3):
                        continue
                    want = prompt["greedy"] if exact else prompt["greedy"][:1]
                    if not exact and prompt["min_margin"] < 1:
                        continue
                    reply = server.post("/generate", asked(prompt["tokens"], len(want), name))
                    self.assertEqual(reply.status, 200, reply.body)
                    self.assertEqual(reply.json["output_ids"], want, name)
        return len(adapters)

    def test_every_golden_in_exact_mode(self):
        bases = {golden["base"].split("/")[1] for root in (OWN, SHARED) if root
                 for golden in [json.loads(path.read_text()) for path in (root / "lora").glob("*/golden.json")]
                 if "greedy" in golden["prompts"][0]}
        served = sum(self.check(base) for base in sorted(bases) if SHARED or (OWN / "models" / base).exists())
        self.assertGreater(served, 2)

    def test_goldens_with_clear_margins_in_default_mode(self):
        self.check("llama3-tied-gqa", "--activations", "int8", exact=False)


class OneServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.watched = cls.folder / "watched"
        cls.watched.mkdir()
        cls.adapters = {f"a{i}": some_adapter(cls.folder / f"a{i}", i) for i in range(8)}
        cls.server = Server("--admin-api-key", "secret", "--lora-dir", str(cls.watched), "--max-running-requests", "64", "--threads", "2",
                            *[f"--lora-paths={name}={path}" for name, path in cls.adapters.items()])
        cls.prompt = [1, 27, 131, 176, 209, 210, 230]

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        shutil.rmtree(cls.folder)

    def ids(self, adapter=None, count=12, **more):
        reply = self.server.post("/generate", asked(self.prompt, count, adapter, **more))
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json["output_ids"]

    def test_32_requests_over_8_adapters_and_none_are_each_what_they_are_alone(self):
        names = [f"a{i}" for i in range(8)] + [None]
        alone = {name: self.ids(name, cache_salt="alone", return_logprob=True) for name in names}
        self.assertGreater(len({tuple(ids) for ids in alone.values()}), 5)
        order = [names[i * 5 % 9] for i in range(32)]
        body = asked([self.prompt] * 32, 12, cache_salt="together")
        body["lora_path"] = order
        reply = self.server.post("/generate", body)
        self.assertEqual(reply.status, 200, reply.body)
        for name, one in zip(order, reply.json):
            self.assertEqual(one["output_ids"], alone[name], name)

    def test_an_adapter_never_finds_what_another_computed(self):
        first = self.server.post("/generate", asked(self.prompt * 9, 1, "a0")).json["meta_info"]["cached_tokens"]
        again = self.server.post("/generate", asked(self.prompt * 9, 1, "a0")).json["meta_info"]["cached_tokens"]
        other = self.server.post("/generate", asked(self.prompt * 9, 1, "a1")).json["meta_info"]["cached_tokens"]
        alone = self.server.post("/generate", asked(self.prompt * 9, 1)).json["meta_info"]["cached_tokens"]
        self.assertEqual((first, other), (0, 0))
        self.assertLess(alone, 7)  # what requests without an adapter began with
        self.assertGreater(again, 50)

    def test_a_model_name_chooses_an_adapter(self):
        want = self.ids("a3")
        base = self.server.get("/v1/models").json["data"][0]["id"]
        for name in ("a3", f"{base}:a3", "a3:latest"):
            reply = self.server.post("/v1/completions", {"model": name, "prompt": self.prompt, "max_tokens": 12, "temperature": 0,
                                                         "ignore_eos": True, "return_token_ids": True})
            self.assertEqual(reply.status, 200, reply.body)
            self.assertEqual(reply.json["choices"][0]["token_ids"], want)
            self.assertEqual(reply.json["model"], "a3")
        ollama = self.server.post("/api/chat", {"model": "a3", "messages": [{"role": "user", "content": "x"}], "stream": False,
                                                "options": {"num_predict": 3}})
        self.assertEqual(ollama.status, 200, ollama.body)
        messages = self.server.post("/v1/messages", {"model": "a3", "max_tokens": 3, "messages": [{"role": "user", "content": "x"}]})
        self.assertEqual((messages.status, messages.json.get("model")), (200, "a3"), messages.body)

    def test_models_lists_adapters_with_their_model(self):
        cards = {card["id"]: card for card in self.server.get("/v1/models").json["data"]}
        base = next(iter(cards))
        self.assertEqual(cards["a2"]["parent"], base)
        self.assertEqual(cards["a2"]["root"], str(self.adapters["a2"]))
        self.assertIsNone(cards[base]["parent"])
        self.assertEqual(self.server.get("/v1/models/a2").json["id"], "a2")
        self.assertIn("espalier_adapters ", self.server.get("/metrics").body.decode())
        listed = self.server.get("/lora-adapters").json
        self.assertIn("a2", [one["name"] for one in listed])
        number = [one["name"] for one in listed].index("a2")
        reply = self.server.post("/completion", {"prompt": self.prompt, "n_predict": 12, "temperature": 0, "ignore_eos": True,
                                                 "return_tokens": True, "lora": [{"id": number, "scale": 1.0}]})
        self.assertEqual(reply.json["tokens"], self.ids("a2"), reply.body)

    def test_what_is_no_adapter_is_refused_by_name(self):
        for body, status in ((asked(self.prompt, 1, "nobody"), 404), (asked(self.prompt, 1, lora_path=5), 400),
                             (asked([self.prompt] * 2, 1, lora_path=["a1"]), 400)):
            reply = self.server.post("/generate", body)
            self.assertEqual(reply.status, status, reply.body)
            self.assertIn(b"lora_path", reply.body)
        self.assertEqual(self.server.post("/v1/completions", {"model": "nobody", "prompt": "x"}).status, 404)

    def test_clients_load_only_below_the_folder_and_with_the_admin_key(self):
        outside = str(self.adapters["a0"])
        self.assertEqual(self.server.post("/load_lora_adapter", {"lora_name": "x", "lora_path": outside}).status, 401)
        reply = self.server.post("/load_lora_adapter", {"lora_name": "x", "lora_path": outside}, headers=ADMIN)
        self.assertEqual((reply.status, reply.json["success"]), (404, False), reply.body)
        for path in ("../a0", "/etc/passwd", ""):
            self.assertGreaterEqual(self.server.post("/load_lora_adapter", {"lora_name": "x", "lora_path": path}, headers=ADMIN).status, 400)
        some_adapter(self.watched / "deep" / "below", 77)
        reply = self.server.post("/load_lora_adapter", {"lora_name": "x", "lora_path": "deep/below"}, headers=ADMIN)
        self.assertEqual((reply.status, reply.json["success"]), (200, True), reply.body)
        self.assertIn("x", reply.json["loaded_adapters"])
        self.ids("x")
        twice = self.server.post("/v1/load_lora_adapter", {"lora_name": "x", "lora_path": "deep/below"}, headers=ADMIN)
        self.assertEqual(twice.status, 400, twice.body)
        gone = self.server.post("/v1/unload_lora_adapter", {"lora_name": "x"}, headers=ADMIN)
        self.assertEqual(gone.status, 200, gone.body)
        self.assertEqual(self.server.post("/generate", asked(self.prompt, 1, "x")).status, 404)

    def test_the_folder_is_watched(self):
        some_adapter(self.watched / "new", 100)
        time.sleep(1.1)
        first = self.ids("new")
        self.assertIn("new", [card["id"] for card in self.server.get("/v1/models").json["data"]])
        time.sleep(0.02)
        some_adapter(self.watched / "new", 101)
        time.sleep(1.1)
        self.assertNotEqual(self.ids("new"), first)
        shutil.rmtree(self.watched / "new")
        time.sleep(1.1)
        self.assertEqual(self.server.post("/generate", asked(self.prompt, 1, "new")).status, 404)

    def test_loading_and_unloading_under_load_lose_no_request(self):
        for seed in (0, 1):
            some_adapter(self.watched / "turn" / str(seed), 200 + seed)
        load = lambda seed: self.server.post("/v1/load_lora_adapter", {"lora_name": "turn", "lora_path": f"turn/{seed}", "load_inplace": True},
                                             headers=ADMIN)
        want = []
        for seed in (0, 1):
            self.assertEqual(load(seed).status, 200)
            want.append(self.ids("turn", 24))
        failed, over, answered = [], threading.Event(), [0]

        def ask():
            while not over.is_set():
                reply = self.server.post("/generate", asked(self.prompt, 24, "turn"))
                answered[0] += reply.status == 200
                if reply.status != 200 or reply.json["output_ids"] not in want:
                    failed.append(reply.body)

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for turn in range(20):
            reply = load(turn % 2)
            if reply.status != 200:
                failed.append(reply.body)
        over.set()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        self.assertGreater(answered[0], 6)

    def test_a_running_request_keeps_an_adapter_that_is_unloaded(self):
        some_adapter(self.watched / "leaves" / "now", 300)
        body = {"lora_name": "leaves", "lora_path": "leaves/now"}
        self.assertEqual(self.server.post("/load_lora_adapter", body, headers=ADMIN).status, 200)
        want = self.ids("leaves", 400)
        replies = []
        threads = [threading.Thread(target=lambda: replies.append(self.server.post("/generate", asked(self.prompt, 400, "leaves"))))
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        eventually(lambda: (self.server.metric("espalier_requests_running") or 0) > 0 or len(replies) > 0, True)
        self.assertEqual(self.server.post("/unload_lora_adapter", {"lora_name": "leaves"}, headers=ADMIN).status, 200)
        for thread in threads:
            thread.join()
        for reply in replies:  # those that came behind the unloading found nothing
            self.assertIn(reply.status, (200, 404))
            if reply.status == 200:
                self.assertEqual(reply.json["output_ids"], want)
        self.assertIn(200, [reply.status for reply in replies])


class Limits(unittest.TestCase):
    def test_others_leave_when_few_may_be_in_memory_and_come_back(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [f"--lora-paths=m{i}={some_adapter(pathlib.Path(folder) / f'm{i}', i)}" for i in range(4)]
            with Server(*paths, "--max-loaded-loras", "2", "--max-loras-per-batch", "1") as server:
                prompt = [1, 2, 3, 4]
                want = [server.post("/generate", asked(prompt, 6, f"m{i}", cache_salt="first")).json["output_ids"] for i in range(4)]
                body = asked([prompt] * 12, 6, cache_salt="second")
                body["lora_path"] = [f"m{i % 4}" for i in range(12)]
                reply = server.post("/generate", body)
                self.assertEqual(reply.status, 200, reply.body)
                self.assertEqual([one["output_ids"] for one in reply.json], want * 3)
                text = server.get("/metrics").body.decode()
                self.assertRegex(text, r"espalier_adapter_evictions(_total)? [1-9]")

    def test_wrong_adapters_end_the_start_with_a_sentence(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            cases = {"narrow": some_adapter(folder / "narrow", 1, hidden=60), "elsewhere": some_adapter(folder / "elsewhere", 1, module="model.nowhere"),
                     "dora": some_adapter(folder / "dora", 1, use_dora=True), "large": some_adapter(folder / "large", 1, rank=32)}
            for what, words in (("narrow", "shape"), ("elsewhere", "model.nowhere"), ("dora", "use_dora"), ("large", "max-lora-rank")):
                with self.assertRaisesRegex(AssertionError, words):
                    with Server(f"--lora-paths=x={cases[what]}", "--max-lora-rank", "16"):
                        pass


class Models(unittest.TestCase):
    def test_each_model_has_its_own_adapters(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            one = some_adapter(folder / "one", 1)
            two = json.dumps({"lora_name": "two", "lora_path": str(some_adapter(folder / "two", 2)), "base_model_name": "second"})
            with Server("--model", f"second={MODEL}", f"--lora-paths=one={one}", f"--lora-paths={two}", model=f"first={MODEL}") as server:
                ids = lambda **more: server.post("/generate", asked([1, 2, 3], 8, **more))
                self.assertEqual(ids(adapter="two", model="second").status, 200)
                self.assertEqual(ids(model="second:two").json["output_ids"], ids(adapter="two").json["output_ids"])
                self.assertNotEqual(ids(model="one").json["output_ids"], ids(model="second:two").json["output_ids"])
                self.assertEqual(ids(adapter="two", model="first").status, 400)
                parents = {card["id"]: card["parent"] for card in server.get("/v1/models").json["data"]}
                self.assertEqual((parents["one"], parents["two"]), ("first", "second"))


if __name__ == "__main__":
    unittest.main()
