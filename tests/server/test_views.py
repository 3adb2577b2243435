"""What the page looks through: /v1/cache/tree, /v1/state, /v1/grammar/graph; what they tell, and whom."""
import json
import pathlib
import shutil
import tempfile
import unittest

from harness import MODEL, Server, ServerCase, in_parallel

SHARED = "A long beginning that both of them share, and then the "


def generate(server, text, headers=None, tokens=2, **more):
    body = {"text": text, "sampling_params": {"max_new_tokens": tokens, "temperature": 0}, **more}
    reply = server.post("/generate", body, headers=headers)
    assert reply.status == 200, reply.body
    return reply.json


class Tree(ServerCase):
    def setUp(self):
        self.server.wait_metric("espalier_requests_running", 0)
        self.assertEqual(self.server.post("/flush_cache", None).status, 200)

    def tree(self, **query):
        reply = self.server.get("/v1/cache/tree?" + "&".join(f"{k}={v}" for k, v in query.items()))
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json

    def test_it_is_bare_at_first_and_then_holds_what_was_read(self):
        bare = self.tree()
        self.assertEqual((bare["nodes"], bare["held_tokens"], bare["more"]), ([], 0, False))
        for fruit in ("apple", "pear"):
            generate(self.server, SHARED + fruit)
        tree = self.tree()
        self.assertTrue(tree["texts"])
        self.assertEqual(len(tree["nodes"]), 3)
        root, *children = tree["nodes"]
        self.assertIsNone(root["parent"])
        self.assertEqual([child["parent"] for child in children], [root["id"]] * 2)
        self.assertEqual({child["begin"] for child in children}, {root["end"]})
        self.assertIn(SHARED[:40], root["text"])
        self.assertEqual(sum(node["end"] - node["begin"] for node in tree["nodes"]), tree["held_tokens"])
        self.assertEqual(tree["hit_tokens"] - bare["hit_tokens"], root["end"])
        self.assertFalse(any(node["pinned"] for node in tree["nodes"]))

    def test_limits_cut_it_short_and_say_so(self):
        for i in range(6):
            generate(self.server, f"{i} is another beginning")
        few = self.tree(limit=3, tokens=4)
        self.assertEqual(len(few["nodes"]), 3)
        self.assertTrue(few["more"])
        self.assertTrue(all(node["text_tokens"] <= 4 for node in few["nodes"]))
        for wrong in ("limit=0", "limit=x", "limit=5001", "tokens=0", "depth=0"):
            reply = self.server.get("/v1/cache/tree?" + wrong)
            self.assertEqual(reply.status, 400)
            self.assertEqual(reply.json["error"]["param"], wrong.split("=")[0])

    def test_a_search_finds_texts_across_nodes_and_tells_their_way(self):
        for fruit in ("apple", "pear"):
            generate(self.server, SHARED + fruit)
        found = self.tree(search="THE%20PEAR")  # begins in the node that both share
        self.assertEqual(found["found"], 1)
        with_snippet = [node for node in found["nodes"] if "snippet" in node]
        self.assertEqual(len(with_snippet), 1)
        self.assertIn("the pear", with_snippet[0]["snippet"])
        self.assertEqual(with_snippet[0]["parent"], found["nodes"][0]["id"])
        self.assertEqual(self.tree(search="quince")["nodes"], [])
        self.assertEqual(self.server.get("/v1/cache/tree?search=" + "x" * 201).status, 400)

    def test_what_is_in_use_is_marked(self):
        raw = self.server.open_stream("/generate", {"text": SHARED + "tree that grows", "stream": True,
                                                    "sampling_params": {"max_new_tokens": 400, "ignore_eos": True}})
        raw.recv(200)
        seen = self.tree()
        raw.close()
        self.assertTrue(any(node["pinned"] for node in seen["nodes"]) or seen["pinned_tokens"] == 0)
        self.server.wait_metric("espalier_requests_running", 0)
        self.assertFalse(any(node["pinned"] for node in self.tree()["nodes"]))

    def test_looking_at_it_changes_no_answer_and_many_may_look(self):
        want = generate(self.server, SHARED + "apple", tokens=20)["output_ids"]

        def work(i):
            if i % 2:
                return generate(self.server, SHARED + "apple", tokens=20)["output_ids"]
            return self.server.get("/v1/cache/tree").status

        for i, got in enumerate(in_parallel(16, work)):
            if i % 2:
                self.assertEqual(got, want)
            else:
                self.assertIn(got, (200, 429))


class Tenants(unittest.TestCase):
    """Nobody reads another one's prompts without the admin key."""

    def seen(self, server, key):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        reply = server.get("/v1/cache/tree", headers=headers)
        search = server.get("/v1/cache/tree?search=share", headers=headers)
        return reply.status, reply.json.get("texts"), any("text" in node for node in reply.json.get("nodes", [])), search.status

    def test_of_several_keys_none_but_the_admins_shows_texts(self):
        with Server("--api-key", "one", "--api-key", "two", "--admin-api-key", "boss") as server:
            generate(server, SHARED, {"Authorization": "Bearer one"})
            self.assertEqual(self.seen(server, ""), (401, None, False, 401))
            self.assertEqual(self.seen(server, "one"), (200, False, False, 403))
            self.assertEqual(self.seen(server, "boss"), (200, True, True, 200))
        with Server("--api-key", "one", "--api-key", "two") as server:
            generate(server, SHARED, {"Authorization": "Bearer one"})
            self.assertEqual(self.seen(server, "one"), (200, False, False, 403))

    def test_the_only_key_and_a_server_without_keys_show_them(self):
        with Server("--api-key", "one") as server:
            generate(server, SHARED, {"Authorization": "Bearer one"})
            self.assertEqual(self.seen(server, "one"), (200, True, True, 200))
        with Server("--admin-api-key", "boss") as server:
            generate(server, SHARED)
            self.assertEqual(self.seen(server, ""), (200, False, False, 403))
            self.assertEqual(self.seen(server, "boss"), (200, True, True, 200))

    def test_beyond_this_machine_without_keys_nobody_sees_them(self):
        with Server("--host", "0.0.0.0", wait=False) as server:
            import re
            import time
            for _ in range(600):
                found = re.search(r"ready on http://[\d.]+:(\d+)", server.text())
                if found:
                    break
                time.sleep(0.02)
            server.port = int(found.group(1))
            generate(server, SHARED)
            self.assertEqual(self.seen(server, ""), (200, False, False, 403))


class State(ServerCase):
    def test_it_tells_what_the_metrics_tell(self):
        generate(self.server, SHARED, tokens=8)
        self.server.wait_metric("espalier_requests_running", 0)
        state = self.server.get("/v1/state").json
        self.assertEqual((state["phase"], state["wants_key"], state["reads_all"]), ("ready", False, True))
        model = state["models"][0]
        self.assertEqual((model["state"], model["running"], model["waiting"]), ("loaded", 0, 0))
        self.assertEqual(model["counters"]["generated_tokens"], self.server.metric("espalier_generated_tokens_total"))
        first = model["histograms"]["time_to_first_token"]
        self.assertEqual(len(first["counts"]), len(first["bounds"]) + 1)
        self.assertEqual(sum(first["counts"]), self.server.metric("espalier_time_to_first_token_seconds_count"))
        pool = model["pool"]
        self.assertLessEqual(pool["free"] + pool["cached"], pool["tokens"])
        self.assertEqual(model["abilities"]["generate"], True)
        self.assertEqual(model["sampling"], {}, "this model proposes nothing")
        self.assertGreater(state["resident_bytes"], 1 << 20)

    def test_it_tells_how_the_model_or_the_operator_wants_it_sampled(self):
        with tempfile.TemporaryDirectory() as folder:
            model = shutil.copytree(MODEL, pathlib.Path(folder, "model"))
            (model / "generation_config.json").write_text('{"do_sample": true, "temperature": 0.6, "top_k": 20}')
            for flags, told in (((), {"temperature": 0.6, "top_k": 20}), (("--sampling-defaults", "openai"), {"temperature": 1})):
                with Server(*flags, model=model) as server:
                    self.assertEqual(server.get("/v1/state").json["models"][0]["sampling"], told)


class Graphs(ServerCase):
    def draw(self, **body):
        return self.server.post("/v1/grammar/graph", body)

    def test_a_constraint_is_drawn_and_a_text_is_tried_in_it(self):
        graph = self.draw(regex="(yes|no)!?", tried="yes?").json
        self.assertEqual({edge["label"] for edge in graph["edges"]}, {"yes", "no", "!"})
        self.assertEqual((graph["accepted"], graph["complete"]), (3, True))
        self.assertFalse(graph["nodes"][0]["end"])
        schema = {"type": "array", "items": {"$ref": "#"}}
        for body in ({"json_schema": schema}, {"json_schema": json.dumps(schema)},
                     {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}):
            graph = self.draw(**body, tried="[[],", states=30).json
            self.assertEqual((graph["accepted"], graph["complete"]), (4, False))
            self.assertTrue(any(node["more"] for node in graph["nodes"]))
            self.assertLessEqual(graph["followed"], 600)

    def test_what_is_wrong_is_refused_by_its_field(self):
        for body, status, field in (({"regex": "(a"}, 400, "regex"), ({}, 400, "regex"), ({"regex": "a", "ebnf": "root ::= \"a\""}, 400, "ebnf"),
                                    ({"regex": "a", "states": 0}, 400, "states"), ({"regex": "a", "tried": 1}, 400, "tried"),
                                    ({"regex": "a", "tried": "a" * 70000}, 400, "tried"),
                                    ({"regex": "a" * 1_100_000}, 413, "regex")):
            reply = self.draw(**body)
            self.assertEqual((reply.status, reply.json["error"]["param"]), (status, field), reply.body)

    def test_hostile_ones_hold_up_nobody(self):
        def work(i):
            if i % 2:
                return generate(self.server, SHARED)["meta_info"]["e2e_latency"]
            return self.draw(regex="(a|b|ab|ba){1,4000}(a|aa|aaa){1,3000}c" * 3).status

        for i, got in enumerate(in_parallel(12, work)):
            if i % 2:
                self.assertLess(got, 5)
            else:
                self.assertIn(got, (200, 400, 429))


if __name__ == "__main__":
    unittest.main()
