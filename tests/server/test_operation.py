"""What an operator sees: log lines and their figures, gauges, resolved settings, keys that are empty by accident."""
import json
import re
import tempfile
import time
import unittest

from harness import MODEL, Server, eventually

SHORT = {"input_ids": [1], "sampling_params": {"temperature": 0, "max_new_tokens": 4, "ignore_eos": True}}
LONG = {"input_ids": [1], "stream": True, "sampling_params": {"temperature": 0, "max_new_tokens": 500, "ignore_eos": True}}


def lines_of(server, *words, seconds=10):
    """The log lines that hold all the words, waited for."""
    end = time.monotonic() + seconds
    while True:
        found = [line for line in server.text().splitlines() if all(word in line for word in words)]
        if found or time.monotonic() > end:
            return found
        time.sleep(0.02)


class Logs(unittest.TestCase):
    def test_every_request_leaves_a_line_under_the_callers_id(self):
        with Server() as server:
            reply = server.post("/generate", {**SHORT, "rid": "mine-1"})
            self.assertEqual((reply.headers["x-request-id"], reply.json["meta_info"]["id"]), ("mine-1", "mine-1"))
            self.assertRegex(lines_of(server, "mine-1")[0], r"mine-1 /generate 200 prompt=1 cached=0 out=4 .*finish=length")
            streamed = server.post("/v1/completions", {"prompt": "a", "max_tokens": 2, "stream": True, "rid": "mine-2"},
                                   headers={"x-request-id": "theirs"})
            self.assertEqual(streamed.headers["x-request-id"], "mine-2")
            self.assertTrue(lines_of(server, "mine-2 /v1/completions 200"))
            self.assertEqual(server.post("/generate", {**SHORT, "rid": "not one word"}).headers["x-request-id"].count(" "), 0)

    def test_refused_requests_leave_a_line_too(self):
        with Server("--api-key", "secret", "--max-body", "1") as server:
            key = {"Authorization": "Bearer secret", "Content-Type": "application/json"}

            def refused(name, path, body, status, code, headers=key):
                reply = server.request("POST", path, body, headers={**headers, "x-request-id": name})
                self.assertEqual(reply.status, status, reply.body)
                self.assertEqual(reply.headers["x-request-id"], name)
                line = lines_of(server, name + " ")[0]
                self.assertRegex(line, rf"{name} {path} {status} refused code={code}\b")
                self.assertNotIn("private", line)
                return reply.json

            refused("r1", "/generate", b'{"text":"private","sampling_params":{"n":0}}', 400, "invalid_value")
            refused("r2", "/generate", b"{private", 400, "invalid_json")
            refused("r3", "/v1/completions", b'{"prompt":"a","model":"private"}', 404, "model_not_found")
            refused("r5", "/nothing/here", b"{}", 404, "route_not_found")
            flat = [refused("r4", "/v1/completions", b"{}", 401, "invalid_api_key", {"Content-Type": "application/json"}),
                    refused("r6", "/v1/chat/completions", b"x" * (2 << 20), 413, "body_too_large")]
            for body in flat:  # SGLang's keys beside OpenAI's, as for every refusal under /v1
                self.assertEqual((body["object"], body["message"]), ("error", body["error"]["message"]))
            self.assertNotIn("object", refused("r7", "/generate", b"{}", 401, "invalid_api_key", {}))

    def test_aborted_requests_say_how_far_they_came(self):
        with Server() as server:
            raw = server.open_stream("/generate", {**LONG, "rid": "gone"})
            raw.recv(100)
            raw.close()
            line = lines_of(server, "gone /generate")[0]
            if " 499 " not in line:
                self.skipTest("the machine was too fast for this check")
            figures = dict(part.split("=") for part in line.split() if "=" in part)
            self.assertGreater(int(figures["out"]), 0, line)
            self.assertRegex(figures["first"], r"^[0-9]+[.][0-9]+s$", line)  # "-" before the first token
            self.assertEqual(figures["finish"], "abort")
            late = server.post("/generate", {**LONG, "stream": False, "rid": "late"}, headers={"x-deadline-ms": "30"})
            if late.status == 408:
                self.assertIn("code=deadline_exceeded", lines_of(server, "late /generate")[0])

    def test_json_lines_have_a_key_for_every_figure(self):
        with Server("--log-format", "json") as server:
            server.post("/generate", {**SHORT, "rid": "one"})
            server.post("/generate", {"text": 5})
            lines_of(server, "refused")
            lines = [json.loads(line) for line in server.text().splitlines() if line]
            start = next(line for line in lines if "espalier: ready on" in line["message"])
            for key in ("url", "model", "architecture", "quantization", "weight_bytes", "context_length", "pool_tokens",
                        "kv_bytes", "threads", "isa", "activations", "seconds"):
                self.assertIn(key, start)
            done = next(line for line in lines if line.get("id") == "one")
            self.assertEqual((done["route"], done["status"], done["prompt_tokens"], done["completion_tokens"], done["finish_reason"]),
                             ("/generate", 200, 1, 4, "length"))
            for key in ("cached_tokens", "queue_seconds", "first_token_seconds", "total_seconds"):
                self.assertIn(key, done)
            refusal = next(line for line in lines if line.get("finish_reason") == "refused")
            self.assertEqual((refusal["status"], refusal["code"], refusal["param"]), (400, "invalid_value", "text"))
            self.assertEqual(server.stop(), 0)
            self.assertTrue(all(json.loads(line) for line in server.text().splitlines() if line))


class Figures(unittest.TestCase):
    def test_server_info_shows_what_the_defaults_came_to(self):
        with Server() as server:
            info = server.get("/get_server_info").json
            self.assertIsInstance(info["served_model_name"], str)
            self.assertEqual(info["served_model_names"], [info["served_model_name"]])
            self.assertEqual(info["port"], server.port)
            for key, least in (("max_running_requests", 1), ("chunked_prefill_size", 1), ("max_total_num_tokens", 2),
                               ("max_queued_tokens", 1), ("threads", 1), ("context_length", 2)):
                self.assertGreaterEqual(info[key], least, key)
            for key in ("kv_cache_dtype", "isa", "quantization", "schedule_policy"):
                self.assertNotIn(info[key], ("", "auto"), key)

    def test_layers_with_windows_go_to_disk_and_come_back(self):
        model = MODEL.parent / "gemma3-v5"
        texts = [[(i * k) % 150 + 8 for i in range(230)] for k in range(3, 19)]
        sampling = {"temperature": 0, "max_new_tokens": 6, "ignore_eos": True}

        def answers(server):
            return [server.generate(input_ids=t, sampling_params=sampling, return_logprob=True) for t in texts]

        def said(replies):
            return [(r["output_ids"], r["meta_info"]["output_token_logprobs"]) for r in replies]

        with Server("--cache-disk", "0", model=model) as server:
            plain = said(answers(server))
        with tempfile.TemporaryDirectory() as folder:
            flags = ("--cache-dir", folder, "--cache-disk", "64M", "--max-total-tokens", "2048", "--max-running-requests", "2",
                     "--swa-full-tokens-ratio", "0.2", "--chunked-prefill-size", "64")
            with Server(*flags, model=model) as server:
                self.assertRegex(server.text(), r"windows .*slots")
                loaded, rounds = 0, 0
                while loaded == 0 and rounds < 20:  # four thousand tokens in turn: who comes again was evicted, and written if the disk kept up
                    self.assertEqual(said(answers(server)), plain)
                    loaded, rounds = server.metric("espalier_prefix_cache_disk_loaded_tokens_total"), rounds + 1
                self.assertGreater(loaded, 0)
                self.assertEqual(server.stop(), 0)
            with Server(*flags, model=model) as server:  # another process finds what this one left
                replies = answers(server)
                self.assertEqual(said(replies), plain)
                self.assertGreater(sum(r["meta_info"]["cached_tokens"] for r in replies), 0)

    def test_the_rate_of_generation_is_shown_while_there_is_work(self):
        with Server() as server:
            for _ in range(3):
                server.post("/generate", {**LONG, "stream": False})
            for name in ("espalier_generation_tokens_per_second", "sglang:gen_throughput"):
                self.assertGreater(server.metric(name), 0, name)
            self.assertGreater(server.get("/get_server_info").json["internal_states"][0]["last_gen_throughput"], 0)

    def test_the_way_of_streamed_tokens_to_the_socket_is_timed(self):
        with Server() as server:
            def timed():
                text = server.get("/metrics").body.decode()
                return tuple(float(re.search(rf"^espalier_token_delivery_seconds_{what} (\S+)$", text, re.M)[1]) for what in ("count", "sum"))

            server.post("/generate", SHORT)
            self.assertEqual(timed(), (0, 0), "whole answers are not")
            began = time.monotonic()
            for path, body in (("/generate", SHORT), ("/v1/completions", {"prompt": "a", "max_tokens": 4, "ignore_eos": True})):
                self.assertEqual(server.post(path, {**body, "stream": True}).status, 200)
            eventually(lambda: timed()[0], 8)
            self.assertTrue(0 < timed()[1] < 8 * (time.monotonic() - began))

    def test_flushing_may_wait_for_running_requests(self):
        with Server() as server:
            raw = server.open_stream("/generate", LONG)
            raw.recv(100)
            self.assertEqual(server.get("/flush_cache?timeout=60").status, 200)
            raw.close()
            self.assertEqual(server.post("/flush_cache?timeout=0", None).status, 200)
            for wrong in ("-1", "soon", "1e9", ""):
                reply = server.get("/flush_cache?timeout=" + wrong)
                self.assertEqual((reply.status, reply.json["error"]["param"]), (400, "timeout"), wrong)


class EmptyKeys(unittest.TestCase):
    def test_an_empty_key_does_not_open_the_server(self):
        cases = [(["--api-key", ""], {}), (["--api-key="], {}), (["--api-key", "a,,b"], {}), (["--api-key", " "], {}),
                 (["--admin-api-key", ""], {}), (["--api-key-file", ""], {}), ([], {"ESPALIER_API_KEY": ""}),
                 ([], {"ESPALIER_ADMIN_API_KEY": ""}), ([], {"ESPALIER_API_KEY_FILE": " "})]
        for flags, env in cases:
            server = Server(*flags, wait=False, env=env)
            code = server.process.wait(30)
            self.assertEqual(code, 2, (flags, env, server.text()))
            self.assertRegex(server.text(), "empty|missing", (flags, env))
            server.kill()

    def test_keys_of_a_list_all_open(self):
        with Server("--api-key", "one,two", "--api-key", "three", env={"ESPALIER_API_KEY": ""}) as server:
            for key in ("one", "two", "three"):
                self.assertEqual(server.get("/v1/models", headers={"Authorization": "Bearer " + key}).status, 200)
            self.assertEqual(server.get("/v1/models", headers={"Authorization": "Bearer one,two"}).status, 401)

    def test_a_browsers_password_counts_on_the_page_and_what_it_calls(self):
        with Server("--api-key", "secret") as server:
            basic = {"Authorization": "Basic OnNlY3JldA=="}  # :secret
            self.assertEqual(server.get("/", headers=basic).status, 200)
            self.assertEqual(server.get("/v1/models", headers=basic).status, 200)
            chat = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
            self.assertEqual(server.post("/v1/chat/completions", chat, headers=basic).status, 200)
            self.assertEqual(server.post("/generate", SHORT, headers=basic).status, 401)
            self.assertIn("Basic", server.get("/").headers["WWW-Authenticate"])
            self.assertEqual(server.get("/v1/models").headers["WWW-Authenticate"], "Bearer")


if __name__ == "__main__":
    unittest.main()
