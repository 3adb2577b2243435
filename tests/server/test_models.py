"""Several models in one server: chosen by the body's `model`, loaded when they are asked for, unloaded and loaded again under load."""
import pathlib
import tempfile
import threading
import time
import unittest

from harness import MODEL, SOURCE, Server, in_parallel

OTHER = SOURCE / "tests" / "data" / "goldens" / "models" / "qwen3-tied"
THIRD = SOURCE / "tests" / "data" / "goldens" / "models" / "n26-mamba2"
ADMIN = {"Authorization": "Bearer boss"}
PROMPT = [5, 9, 12, 40, 7]


def ask(server, model, tokens=16, **more):
    return server.post("/generate", {"model": model, "input_ids": PROMPT, "sampling_params":
                                     {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}, **more})


def ids(reply):
    assert reply.status == 200, reply.body
    return reply.json["output_ids"]


def alone(path, tokens=16):
    """What a server of this model only says."""
    with Server(model=path) as server:
        return ids(ask(server, "", tokens))


def states(server):
    return {card["id"]: card["state"] for card in server.get("/v1/models").json["data"]}


def of_model(server, name):
    return next(model for model in server.get("/get_server_info").json["models"] if model["model_name"] == name)


def wait_for(what, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come to that")


class Two(unittest.TestCase):
    """Two families, both under names of their own."""

    @classmethod
    def setUpClass(cls):
        cls.want = {"one": alone(MODEL), "two": alone(OTHER)}
        cls.server = Server("--model", f"two={OTHER}", "--admin-api-key", "boss", model=f"one={MODEL}")
        cls.addClassCleanup(cls.server.kill)

    def test_the_body_says_which_and_the_bits_are_those_of_a_server_of_that_model_alone(self):
        self.assertNotEqual(self.want["one"], self.want["two"])
        for name in ("one", "two"):
            self.assertEqual(ids(ask(self.server, name)), self.want[name])
        for name in ("", "default", "unknown", "one:latest"):
            self.assertEqual(ids(ask(self.server, name)), self.want["one"], name)

    def test_a_name_that_is_not_served_is_a_404_that_lists_those_that_are(self):
        for path, body in (("/generate", {"input_ids": [1]}), ("/v1/completions", {"prompt": [1]}), ("/tokenize", {"prompt": "a"}),
                           ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})):
            reply = self.server.post(path, {"model": "three", **body})
            self.assertEqual(reply.status, 404, path)
            self.assertIn("one, two", reply.body.decode())

    def test_every_route_with_a_body_takes_the_model(self):
        for name in ("one", "two"):
            reply = self.server.post("/v1/completions", {"model": name, "prompt": PROMPT, "max_tokens": 4, "temperature": 0})
            self.assertEqual((reply.status, reply.json["model"]), (200, name))
            info = self.server.get(f"/get_model_info?model={name}").json
            self.assertEqual(info["served_model_name"], name)
        self.assertEqual(self.server.get("/get_model_info").json["served_model_name"], "one")
        self.assertEqual(self.server.get("/get_model_info?model=three").status, 404)

    def test_ollamas_lists_and_names_are_of_all_models(self):
        for field in ("model", "name"):
            shown = self.server.post("/api/show", {field: "two:latest"})
            self.assertIn(str(OTHER), shown.json["modelfile"], shown.body)
        self.assertEqual([tag["name"] for tag in self.server.get("/api/tags").json["models"]], ["one:latest", "two:latest"])
        self.assertIn("two:latest", [model["name"] for model in self.server.get("/api/ps").json["models"]])

    def test_models_tell_their_state_wherever_models_are_listed(self):
        ids(ask(self.server, "two"))
        self.assertEqual(states(self.server), {"one": "loaded", "two": "loaded"})
        cards = self.server.get("/v1/models").json["data"]
        self.assertEqual({card["owned_by"] for card in cards}, {"sglang"})
        self.assertTrue(all(card["size_bytes"] > 0 for card in cards))
        self.assertEqual(self.server.get("/v1/models/two").json["id"], "two")
        info = self.server.get("/get_server_info").json
        self.assertEqual([model["model_name"] for model in info["models"]], ["one", "two"])
        self.assertEqual(len(info["internal_states"]), 2)
        metrics = self.server.get("/metrics").body.decode()
        for line in ('espalier_model_loaded{model_name="two"} 1', 'sglang:num_running_reqs{model_name="one"', 'espalier_requests_running{model="two"}'):
            self.assertIn(line, metrics)
        families = [line for line in metrics.splitlines() if line.startswith("# TYPE ")]
        self.assertEqual(len(families), len(set(families)))

    def test_control_over_models_wants_the_admin_key(self):
        self.assertEqual(self.server.post("/models/unload", {"model": "two"}).status, 401)
        self.assertEqual(self.server.post("/models/unload", {"model": "three"}, headers=ADMIN).status, 404)
        self.assertEqual(self.server.post("/models/unload", {}, headers=ADMIN).status, 400)

    def test_sixty_four_clients_of_two_models_one_unloaded_and_loaded_again_never_fail(self):
        over = threading.Event()
        unloads = [0]

        def unload():
            while not over.is_set():
                unloads[0] += self.server.post("/models/unload", {"model": "two"}, headers=ADMIN).status == 200
                time.sleep(0.05)

        def client(i):
            name = ("one", "two")[i % 2]
            return [ids(ask(self.server, name)) == self.want[name] for _ in range(4)]

        unloader = threading.Thread(target=unload)
        before = of_model(self.server, "two")["loads"]
        unloader.start()
        try:
            right = in_parallel(64, client)
        finally:
            over.set()
            unloader.join()
        self.assertTrue(all(all(one) for one in right))
        self.assertGreater(unloads[0], 0)
        self.assertGreater(of_model(self.server, "two")["loads"], before)
        wait_for(lambda: of_model(self.server, "two")["in_use"] == 0)

    def test_unloaded_models_are_ready_to_be_asked_and_loaded_when_told(self):
        for name in ("two", "one"):
            self.assertEqual(self.server.post("/models/unload", {"model": name}, headers=ADMIN).status, 200)
            wait_for(lambda: states(self.server)[name] == "unloaded")
        for path in ("/readyz", "/health", "/get_server_info", "/metrics", "/get_load", "/v1/models"):
            self.assertEqual(self.server.get(path).status, 200, path)
        self.assertEqual(states(self.server), {"one": "unloaded", "two": "unloaded"})  # looking at them loads none
        self.assertEqual(self.server.post("/models/load", {"model": "two"}, headers=ADMIN).status, 200)
        wait_for(lambda: states(self.server)["two"] == "loaded")
        self.assertEqual(self.server.get("/get_model_info").json["served_model_name"], "one")  # which has to be there to tell
        self.assertEqual(ids(ask(self.server, "one")), self.want["one"])

    def test_a_session_belongs_to_its_model(self):
        session = self.server.post("/open_session", {"capacity_of_str_len": 1000, "model": "two"}).json
        turn = {"session_params": {"id": session}}
        self.assertEqual(ask(self.server, "two", 4, **turn).status, 200)
        self.assertEqual(ask(self.server, "one", 4, **turn).status, 404)
        self.assertEqual(self.server.post("/close_session", {"session_id": session, "model": "two"}).status, 200)


class OneAtATime(unittest.TestCase):
    """Two models where one is in memory at a time."""

    @classmethod
    def setUpClass(cls):
        cls.want = {"one": alone(MODEL), "two": alone(OTHER)}
        cls.server = Server("--model", f"two={OTHER}", "--max-loaded-models", "1", model=f"one={MODEL}")
        cls.addClassCleanup(cls.server.kill)

    def hold(self, name):
        """A stream of that model that has begun; it lasts for as long as nobody reads on."""
        raw = self.server.open_stream("/generate", {"model": name, "input_ids": PROMPT, "stream": True, "sampling_params":
                                                    {"temperature": 0, "max_new_tokens": 400, "ignore_eos": True}})
        raw.recv(1)
        return raw

    def test_clients_of_both_take_turns_and_none_fails(self):
        def client(i):
            name = ("one", "two")[i % 2]
            return [ids(ask(self.server, name)) == self.want[name] for _ in range(3)]

        self.assertTrue(all(all(one) for one in in_parallel(16, client)))
        self.assertEqual(sorted(states(self.server).values()), ["loaded", "unloaded"])

    def test_a_wait_for_a_model_ends_with_the_callers_deadline_and_with_the_caller(self):
        ids(ask(self.server, "one"))
        asked = {"model": "two", "input_ids": PROMPT, "sampling_params": {"max_new_tokens": 1}}
        late = self.server.post("/generate", {**asked, "rid": "late"}, headers={"x-deadline-ms": "1"})
        self.assertIn(late.status, (408, 504))
        loads = of_model(self.server, "two")["loads"]
        ids(ask(self.server, "two"))
        self.assertGreaterEqual(of_model(self.server, "two")["loads"], loads)
        held = [self.hold("two") for _ in range(8)]
        raw = self.server.open_stream("/generate", {**asked, "model": "one"})
        raw.close()
        wait_for(lambda: of_model(self.server, "one")["waiting"] == 0)
        for stream in held:
            stream.close()
        self.assertEqual(ids(ask(self.server, "one")), self.want["one"])


class Ways(unittest.TestCase):
    def test_a_folder_of_several_models_serves_each_by_its_name(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in (MODEL, OTHER, THIRD):
                (pathlib.Path(folder) / path.name).symlink_to(path)
            (pathlib.Path(folder) / "no-model").mkdir()
            with Server(model=folder) as server:
                self.assertEqual(states(server), {MODEL.name: "loaded", THIRD.name: "unloaded", OTHER.name: "unloaded"})
                for path in (OTHER, THIRD):
                    self.assertEqual(ask(server, path.name).status, 200)

    def test_a_model_that_nobody_uses_leaves_and_comes_back(self):
        with Server("--model-idle", "0.2", model=f"one={MODEL}") as server:
            first = ids(ask(server, "one"))
            wait_for(lambda: states(server)["one"] == "unloaded")
            self.assertEqual(server.get("/readyz").status, 200)
            self.assertEqual(ids(ask(server, "one")), first)
            self.assertEqual(of_model(server, "one")["loads"], 2)

    def test_a_model_that_cannot_be_loaded_fails_its_own_requests_only(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "config.json").write_text("{}")
            with Server("--model", f"broken={folder}", model=f"one={MODEL}") as server:
                reply = ask(server, "broken")
                self.assertEqual(reply.status, 503)
                self.assertIn("the model broken cannot be loaded", reply.body.decode())
                self.assertIn("failure", of_model(server, "broken"))
                self.assertEqual(ask(server, "one").status, 200)

    def test_preload_loads_all_and_without_an_admin_key_nobody_unloads(self):
        with Server("--model", f"two={OTHER}", "--preload", model=f"one={MODEL}") as server:
            wait_for(lambda: set(states(server).values()) == {"loaded"})
            self.assertEqual(server.post("/models/unload", {"model": "two"}).status, 404)

    def test_a_name_given_twice_is_refused(self):
        server = Server("--model", f"one={OTHER}", model=f"one={MODEL}", wait=False)
        self.addCleanup(server.kill)
        self.assertEqual(server.process.wait(60), 2)
        self.assertIn("two models are called one", server.text())

    def test_a_model_is_not_fetched_where_that_is_forbidden(self):
        with tempfile.TemporaryDirectory() as home:
            server = Server("--no-allow-download", model="someone/something", wait=False,
                            env={"HF_HOME": home, "HF_ENDPOINT": "http://127.0.0.1:9"})
            self.addCleanup(server.kill)
            self.assertEqual(server.process.wait(60), 3)
            self.assertIn("is not in the cache", server.text())


if __name__ == "__main__":
    unittest.main()
