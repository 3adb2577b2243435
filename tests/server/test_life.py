"""From the open socket to the drained stream: readiness, keys, limits, clients that leave, signals, narrow machines."""
import os
import re
import resource
import signal
import socket
import tempfile
import time
import unittest

from harness import GOLDEN, Server, ServerCase, eventually, in_parallel, without_sanitizers

LONG = {"input_ids": [1], "stream": True, "sampling_params": {"temperature": 0, "max_new_tokens": 500, "ignore_eos": True}}
SHORT = {"input_ids": [1], "sampling_params": {"temperature": 0, "max_new_tokens": 4, "ignore_eos": True}}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def parsed_metrics(text):
    """Every sample by name and labels; fails on a line that is no exposition format."""
    sample = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\.)*"(?:,[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\.)*")*\})? '
                        r"([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|Inf)|NaN)$")
    types, samples = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"two families {name}"
            types[name] = kind
        elif not line.startswith("#"):
            match = sample.match(line)
            assert match, line
            assert (match[1], match[2]) not in samples, f"twice: {line}"
            samples[match[1], match[2]] = float(match[3].replace("Inf", "inf"))
    return types, samples


class Open(ServerCase):
    def test_health_routes_say_ok(self):
        for path in ("/health", "/livez", "/readyz", "/ready", "/ping", "/health_generate"):
            reply = self.server.get(path)
            self.assertEqual((reply.status, reply.json["status"]), (200, "ok"), path)

    def test_information_routes_answer(self):
        info = self.server.get("/get_model_info").json
        self.assertEqual(self.server.get("/model_info").json, info)
        self.assertTrue(info["is_generation"])
        self.assertEqual(info["architectures"], ["LlamaForCausalLM"])
        server = self.server.get("/get_server_info").json
        for key in ("max_total_num_tokens", "internal_states", "version", "schedule_policy", "port"):
            self.assertIn(key, server)
        self.assertNotIn("api_key", server)
        self.assertIn("version", self.server.get("/version").json)

    def test_unknown_routes_and_methods_are_refused(self):
        self.assertEqual(self.server.get("/nope").status, 404)
        wrong = self.server.get("/v1/completions")
        self.assertEqual(wrong.status, 405)
        self.assertIn("POST", wrong.headers["Allow"])

    def test_the_page_is_one_file(self):
        page = self.server.get("/")
        self.assertEqual(page.status, 200)
        self.assertIn("text/html", page.headers["Content-Type"])
        text = page.body.decode()
        self.assertTrue(text.rstrip().endswith("</html>"))
        self.assertNotRegex(text, r'(src|href)="(https?:)?//')

    def test_metrics_are_well_formed_in_both_formats(self):
        self.server.generate(**SHORT)
        plain = self.server.get("/metrics")
        types, samples = parsed_metrics(plain.body.decode())
        names = {name for name, _ in samples}
        for name in ("espalier_requests_running", "espalier_requests_waiting", "espalier_kv_cache_usage_ratio", "espalier_requests_total",
                     "espalier_time_to_first_token_seconds_bucket", "sglang:num_running_reqs", "sglang:num_queue_reqs",
                     "sglang:token_usage", "sglang:cache_hit_rate", "sglang:gen_throughput", "sglang:prompt_tokens_total",
                     "process_resident_memory_bytes", "espalier_build_info"):
            self.assertIn(name, names)
        for (name, labels), value in samples.items():
            if name.endswith("_bucket") and 'le="+Inf"' in labels:
                count = samples[name[:-7] + "_count", re.sub(r',?le="\+Inf"', "", labels).replace("{}", "") or None]
                self.assertEqual(value, count, name)
        self.assertTrue(all(kind in ("counter", "gauge", "histogram") for kind in types.values()))
        other = self.server.get("/metrics", headers={"Accept": "application/openmetrics-text"})
        self.assertIn("openmetrics", other.headers["Content-Type"])
        self.assertTrue(other.body.endswith(b"# EOF\n"))
        for name, kind in parsed_metrics(other.body.decode())[0].items():
            self.assertFalse(kind == "counter" and name.endswith("_total"), name)

    def test_the_cache_can_be_flushed_only_when_idle(self):
        self.server.wait_metric("espalier_requests_running", 0)
        self.assertEqual(self.server.post("/flush_cache", None).status, 200)
        self.assertEqual(self.server.get("/flush_cache").status, 200)
        for _ in range(20):
            streams = [self.server.open_stream("/generate", {**LONG, "input_ids": [1, 40 + i]}) for i in range(8)]
            for raw in streams:
                raw.recv(200)
            status = self.server.get("/flush_cache").status
            # All had begun before; whoever runs afterwards ran in between. A stalled machine may have finished them: once more.
            still = self.server.metric("espalier_requests_running")
            for raw in streams:
                raw.close()
            self.server.wait_metric("espalier_requests_running", 0)
            if still:
                break
        self.assertTrue(still, "no request was still running in 20 tries")
        self.assertEqual(status, 400)

    def test_clients_that_leave_free_their_work(self):
        before = self.server.metric("espalier_aborted_total") or 0
        for body in (LONG, {**LONG, "stream": False}):
            sockets = [self.server.open_stream("/generate", {**body, "input_ids": [1, 20 + i]}) for i in range(8)]
            end = time.monotonic() + 20
            while self.server.metric("espalier_requests_running") == 0 and time.monotonic() < end:
                time.sleep(0.005)  # on a busy machine the first is long in coming; the work must have begun to be left
            for raw in sockets:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                raw.close()
            self.server.wait_metric("espalier_requests_running", 0, seconds=5)
        self.assertGreater(self.server.metric("espalier_aborted_total"), before)
        self.assertEqual(self.server.generate(**SHORT)["output_ids"], GOLDEN["prompts"][0]["greedy"][:4])

    def test_many_streams_at_once_are_right(self):
        expected = {tuple(p["tokens"]): p["greedy"] for p in GOLDEN["prompts"]}
        prompts = [p["tokens"] for p in GOLDEN["prompts"]] * 16

        def one(i):
            body = {"input_ids": prompts[i], "stream": True, "sampling_params": {"temperature": 0, "max_new_tokens": 32, "ignore_eos": True}}
            return self.server.post("/generate", body, timeout=120).events

        for prompt, events in zip(prompts, in_parallel(64, one)):
            self.assertEqual(events[-1], "[DONE]")
            self.assertEqual(events[-2]["output_ids"], expected[tuple(prompt)])

    def test_a_slow_reader_holds_up_nobody(self):
        slow = self.server.open_stream("/generate", {**LONG, "return_logprob": True, "top_logprobs_num": 20})
        start = time.monotonic()
        self.server.generate(**SHORT)
        self.assertLess(time.monotonic() - start, 20)
        time.sleep(0.5)
        data = b""
        while piece := slow.recv(1 << 20):
            data += piece
            if b"data: [DONE]" in data[-100:]:
                break
        slow.close()
        self.assertIn(b'"completion_tokens":500', data)

    def test_deadlines_end_requests(self):
        reply = self.server.post("/generate", {**LONG, "stream": False}, headers={"x-deadline-ms": "1"})
        self.assertEqual((reply.status, reply.json["error"]["code"]), (408, "deadline_exceeded"))
        self.server.wait_metric("espalier_requests_running", 0)

    def test_broken_bodies_do_no_harm(self):
        for body in (b"", b"[]", b"{", b'{"a":1,"a":2}', b"\xff\xfe", b'{"prompt":"' + b"\\ud800" + b'"}', b"[" * 100000, b"null", b'{"prompt":1e999}'):
            for path in ("/v1/completions", "/v1/chat/completions", "/generate", "/tokenize", "/detokenize", "/abort_request"):
                reply = self.server.post(path, body, headers={"Content-Type": "application/json"})
                self.assertEqual(reply.status, 400, (path, body[:20], reply.body))
        self.assertEqual(self.server.get("/health").status, 200)


class Keys(unittest.TestCase):
    def test_keys_open_routes_and_reload(self):
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as file:
            file.write("from-file\n")
            file.flush()
            with Server("--api-key", "alpha", "--api-key-file", file.name, "--admin-api-key", "boss") as server:
                bearer = lambda key: {"Authorization": f"Bearer {key}"}
                for path in ("/health", "/livez", "/readyz", "/metrics"):
                    self.assertEqual(server.get(path).status, 200, path)
                for path in ("/v1/models", "/get_model_info", "/get_server_info", "/version", "/", "/health_generate", "/flush_cache", "/nope"):
                    reply = server.get(path)
                    self.assertEqual(reply.status, 401, path)
                    self.assertEqual(reply.json["error"]["code"], "invalid_api_key")
                for headers in (bearer("alpha"), bearer("from-file"), {"x-api-key": "alpha"}):
                    self.assertEqual(server.get("/v1/models", headers=headers).status, 200)
                self.assertEqual(server.get("/v1/models", headers=bearer("alphA")).status, 401)
                self.assertEqual(server.get("/flush_cache", headers=bearer("alpha")).status, 403)
                self.assertEqual(server.get("/flush_cache", headers=bearer("boss")).status, 200)
                self.assertEqual(server.get("/v1/models", headers=bearer("boss")).status, 200)
                # Decided before the body: the refusal comes although the body never does.
                raw = socket.create_connection(("127.0.0.1", server.port), timeout=10)
                raw.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")
                self.assertIn(b"401", raw.recv(1000).split(b"\r\n")[0])
                raw.close()
                file.seek(0)
                file.truncate()
                file.write("second\n")
                file.flush()
                server.process.send_signal(signal.SIGHUP)
                end = time.monotonic() + 10
                while server.get("/v1/models", headers=bearer("second")).status != 200 and time.monotonic() < end:
                    time.sleep(0.02)
                self.assertEqual(server.get("/v1/models", headers=bearer("second")).status, 200)
                self.assertEqual(server.get("/v1/models", headers=bearer("from-file")).status, 401)
                self.assertNotIn("alpha", server.text())

    def test_the_log_level_is_read_again(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            def say(text):
                file.seek(0)
                file.truncate()
                file.write(text)
                file.flush()

            say("log-level: error\nlog-requests: true\n")
            with Server("--config", file.name) as server:
                lines = lambda: server.text().count(" /generate ")
                hung_up = lambda word: (server.process.send_signal(signal.SIGHUP), eventually(lambda: word in server.text(), True))
                server.generate(text="a", sampling_params={"max_new_tokens": 1})
                self.assertEqual(lines(), 0)
                say("log_level: info\n")
                hung_up("the log level is info now")
                server.generate(text="a", sampling_params={"max_new_tokens": 1})
                eventually(lines, 1)
                say("log-level: loud\n")
                hung_up("the log level stays as it was: --log-level is loud")
                server.generate(text="a", sampling_params={"max_new_tokens": 1})
                eventually(lines, 2)
            say("log-level: error\n")
            with Server("--config", file.name, "--log-level", "info") as server:
                server.process.send_signal(signal.SIGHUP)
                eventually(lambda: "keys were read again" in server.text(), True)
                self.assertNotIn("the log level", server.text(), "the command line has said it")

    def test_strict_refuses_unknown_fields_and_others_name_them_once(self):
        with Server("--strict") as server:
            reply = server.post("/v1/completions", {"prompt": "a", "tempreature": 1})
            self.assertEqual((reply.status, reply.json["error"]["param"]), (400, "tempreature"))
        with Server() as server:
            for _ in range(3):
                self.assertEqual(server.post("/v1/completions", {"prompt": "a", "tempreature": 1, "max_tokens": 1}).status, 200)
            self.assertEqual(server.text().count("tempreature"), 1)


class Loading(unittest.TestCase):
    def test_errors_of_start_have_their_exit_codes(self):
        for flags, model, code in ((["--port", "70000"], None, 2), (["--no-such-flag"], None, 2), ([], "/nonexistent/model.gguf", 3),
                                   (["--schedule-policy", "nonsense"], None, 2)):
            server = Server(*flags, wait=False, **({"model": model} if model else {}))
            self.assertEqual(server.process.wait(30), code, server.text())
            self.assertTrue(server.text().strip())
            server.kill()
        taken = socket.socket()
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = Server("--port", str(taken.getsockname()[1]), wait=False)
        self.assertEqual(server.process.wait(30), 5, server.text())
        server.kill()
        taken.close()


class Limits(unittest.TestCase):
    def test_a_full_queue_answers_429_with_a_hint(self):
        with Server("--max-running-requests", "1", "--max-queued-requests", "2") as server:
            replies = in_parallel(12, lambda i: server.post("/generate", {**LONG, "stream": False, "input_ids": [1, 9 + i]}, timeout=120))
            self.assertTrue(all(r.status in (200, 429) for r in replies))
            refused = [r for r in replies if r.status == 429]
            self.assertTrue(refused, "nothing was refused")
            self.assertTrue(any(r.status == 200 for r in replies))
            for reply in refused:
                self.assertGreaterEqual(int(reply.headers["Retry-After"]), 1)
                self.assertEqual(reply.json["error"]["type"], "rate_limit_error")
            self.assertEqual(server.generate(**SHORT)["output_ids"], GOLDEN["prompts"][0]["greedy"][:4])

    def test_bodies_over_the_limit_are_refused(self):
        with Server("--max-body", "1") as server:
            self.assertEqual(server.post("/tokenize", {"prompt": "a" * (1 << 20)}).status, 413)
            self.assertEqual(server.post("/tokenize", {"prompt": "a" * ((1 << 20) - 100)}).status, 200)

    def test_it_lives_with_96_descriptors(self):
        with Server(limits={resource.RLIMIT_NOFILE: 96}) as server:
            idle = []
            for _ in range(150):
                try:
                    idle.append(socket.create_connection(("127.0.0.1", server.port), timeout=5))
                except OSError:
                    break
            for raw in idle:
                raw.close()
            end = time.monotonic() + 10
            while time.monotonic() < end:
                try:
                    if server.get("/health").status == 200:
                        break
                except OSError:
                    time.sleep(0.05)
            self.assertEqual(server.generate(**SHORT)["output_ids"], GOLDEN["prompts"][0]["greedy"][:4])

    @without_sanitizers
    def test_it_lives_within_8_gib_of_address_space(self):
        with Server(limits={resource.RLIMIT_AS: 8 << 30}) as server:
            self.assertEqual(server.generate(**SHORT)["output_ids"], GOLDEN["prompts"][0]["greedy"][:4])

    def test_a_full_device_under_stderr_is_survived(self):
        port = free_port()
        with open("/dev/full", "w") as full:
            with Server("--port", str(port), wait=False, stderr=full) as server:
                server.port = port
                end = time.monotonic() + 60
                while time.monotonic() < end:
                    try:
                        if server.get("/health").status == 200:
                            break
                    except OSError:
                        time.sleep(0.05)
                self.assertEqual(server.generate(**SHORT)["output_ids"], GOLDEN["prompts"][0]["greedy"][:4])
                self.assertGreater(server.metric("espalier_lost_log_lines_total"), 0)
                self.assertEqual(server.stop(), 0)


class Shutdown(unittest.TestCase):
    def test_an_idle_server_stops_with_0(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Server() as server:
                self.assertEqual(server.stop(number), 0)

    def test_a_server_that_was_told_so_ends_with_its_input(self):
        reading, writing = os.pipe()
        with Server("--end-with-stdin", stdin=reading) as server:
            os.close(reading)
            os.write(writing, b"this is not the end")
            self.assertEqual(server.post("/generate", SHORT).status, 200)
            self.assertIsNone(server.process.poll())
            os.close(writing)
            self.assertEqual(server.process.wait(40), 0)

    def test_running_streams_finish_and_new_work_is_refused(self):
        with Server() as server:
            raw = server.open_stream("/generate", LONG)
            first = raw.recv(500)
            server.process.send_signal(signal.SIGTERM)
            data, statuses = first, set()
            while piece := raw.recv(1 << 16):
                data += piece
                if b"data: [DONE]" in data:
                    break
                try:
                    statuses.add((server.get("/readyz", timeout=2).status, server.post("/generate", SHORT, timeout=2).status))
                except OSError:
                    pass  # it was over meanwhile
            raw.close()
            self.assertIn(b'"completion_tokens":500', data)
            self.assertTrue(statuses <= {(503, 503), (200, 200), (200, 503)}, statuses)
            self.assertEqual(server.process.wait(20), 0)

    def test_streams_over_the_limit_get_an_error_event(self):
        with Server("--shutdown-timeout", "0") as server:
            raw = server.open_stream("/generate", {**LONG, "return_logprob": True, "top_logprobs_num": 320})
            data = raw.recv(500)
            server.process.send_signal(signal.SIGTERM)
            while piece := raw.recv(1 << 20):
                data += piece
            raw.close()
            code = server.process.wait(5)
            if b'"completion_tokens":500' in data:
                self.skipTest("the machine was too fast for this check")
            self.assertEqual(code, 143)
            self.assertIn(b'"code":"draining"', data[-2000:])
            self.assertTrue(data.rstrip().endswith((b"data: [DONE]", b"0")), data[-200:])

    def test_a_second_signal_ends_at_once(self):
        with Server() as server:
            sockets = [server.open_stream("/generate", {**LONG, "input_ids": [1, 9 + i]}) for i in range(20)]
            sockets[0].recv(100)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.1)
            server.process.send_signal(signal.SIGTERM)
            code = server.process.wait(2)
            self.assertIn(code, (0, 143))
            for raw in sockets:
                raw.close()

    def test_a_killed_server_comes_back_on_its_port(self):
        port = str(free_port())
        with Server("--port", port) as server:
            server.generate(**SHORT)
            raw = server.open_stream("/generate", LONG)
            raw.recv(100)
            os.kill(server.process.pid, signal.SIGKILL)
            server.process.wait()
            raw.close()
        with Server("--port", port) as server:
            self.assertEqual(server.generate(**SHORT)["output_ids"], GOLDEN["prompts"][0]["greedy"][:4])


if __name__ == "__main__":
    unittest.main()
