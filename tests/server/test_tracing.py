"""Traces and logs of the real binary: traceparent in and out, spans at a collector's double, JSON lines."""
import http.server
import json
import threading
import time
import unittest

from harness import Server, eventually

SHORT = {"input_ids": [1, 2, 3, 4, 5], "sampling_params": {"temperature": 0, "max_new_tokens": 6, "ignore_eos": True}}
CHAT = {"model": "default", "messages": [{"role": "user", "content": "the-secret-word"}], "max_tokens": 4}
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Collector:
    """What takes OTLP over HTTP; answers with `status` after `delay` seconds."""

    def __init__(self, status=200, delay=0):
        self.bodies, self.paths, self.heads, self.status = [], [], [], status
        self.lock = threading.Lock()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                time.sleep(delay)
                with collector.lock:
                    collector.paths.append(self.path)
                    collector.heads.append(dict(self.headers))
                    collector.bodies.append(json.loads(body))
                self.send_response(collector.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def spans(self):
        with self.lock:
            return [span for body in self.bodies for r in body["resourceSpans"] for s in r["scopeSpans"] for span in s["spans"]]

    def servers(self):
        return [span for span in self.spans() if span["kind"] == 2]


def attributes(span):
    def plain(value):
        (kind, inner), = value.items()
        if kind == "arrayValue":
            return [plain(v) for v in inner["values"]]
        return int(inner) if kind == "intValue" else inner
    return {a["key"]: plain(a["value"]) for a in span["attributes"]}


class Tracing(unittest.TestCase):
    def start(self, *flags, collector=None, **env):
        self.collector = collector or Collector()
        self.addCleanup(self.collector.close)
        server = Server(*flags, env={"OTEL_EXPORTER_OTLP_ENDPOINT": self.collector.url, "no_proxy": "127.0.0.1", **env})
        self.addCleanup(server.kill)
        return server

    def test_a_request_is_one_span_with_its_parts(self):
        server = self.start(OTEL_SERVICE_NAME="tested", OTEL_RESOURCE_ATTRIBUTES="zone=here", OTEL_EXPORTER_OTLP_HEADERS="api-key=s%20t")
        began = time.time()
        reply = server.post("/generate", SHORT, headers={"traceparent": PARENT, "tracestate": "vendor=7"})
        eventually(lambda: len(self.collector.spans()), 4)
        self.assertEqual(self.collector.paths, ["/v1/traces"])
        self.assertEqual(self.collector.heads[0]["api-key"], "s t")
        resource = attributes(self.collector.bodies[0]["resourceSpans"][0]["resource"])
        self.assertEqual((resource["service.name"], resource["zone"]), ("tested", "here"))
        root, = self.collector.servers()
        self.assertEqual((root["traceId"], root["parentSpanId"], root["traceState"]), (PARENT[3:35], PARENT[36:52], "vendor=7"))
        self.assertEqual(reply.headers["traceparent"], f"00-{root['traceId']}-{root['spanId']}-01")
        about = attributes(root)
        for name, value in {"gen_ai.operation.name": "text_completion", "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 6,
                            "gen_ai.response.finish_reasons": ["length"], "http.route": "/generate", "http.response.status_code": 200,
                            "gen_ai.response.id": reply.headers["x-request-id"]}.items():
            self.assertEqual(about[name], value, name)
        children = {s["name"]: s for s in self.collector.spans() if s is not root and s["kind"] == 1}
        self.assertEqual(set(children), {"queue", "prefill", "decode"})
        times = []
        for name in ("queue", "prefill", "decode"):
            child = children[name]
            self.assertEqual((child["traceId"], child["parentSpanId"]), (root["traceId"], root["spanId"]))
            times += [int(child["startTimeUnixNano"]), int(child["endTimeUnixNano"])]
        self.assertEqual(times, sorted(times))
        self.assertGreaterEqual(times[0] + 5_000_000, int(root["startTimeUnixNano"]))
        self.assertLess(abs(int(root["startTimeUnixNano"]) / 1e9 - began), 5)
        prefill = attributes(children["prefill"])
        self.assertEqual(prefill["espalier.prefill.cached_tokens"] + prefill["espalier.prefill.computed_tokens"], 5)

    def test_the_cache_is_explained_and_no_text_leaves(self):
        server = self.start()
        for _ in range(2):
            self.assertEqual(server.post("/v1/chat/completions", CHAT).status, 200)
        eventually(lambda: len(self.collector.servers()), 2)
        first, second = (attributes(s) for s in self.collector.servers())
        self.assertEqual(first["gen_ai.operation.name"], "chat")
        self.assertGreater(second["gen_ai.usage.cache_read.input_tokens"], first["gen_ai.usage.cache_read.input_tokens"])
        self.assertEqual((first["espalier.cache.miss_reason"], second["espalier.cache.miss_reason"]), ("diverged", "limit"))
        self.assertNotEqual(*(s["traceId"] for s in self.collector.servers()))
        self.assertNotIn("the-secret-word", json.dumps(self.collector.bodies))

    def test_calls_of_tools_are_parts_of_their_own_without_the_clients_words(self):
        server = self.start("--tool-call-parser", "hermes")
        tool = {"type": "function", "function": {"name": "the_secret_tool", "strict": True, "parameters": {
            "type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"], "additionalProperties": False}}}
        reply = server.post("/v1/chat/completions", {**CHAT, "tools": [tool], "tool_choice": "required", "parallel_tool_calls": False,
                                                     "max_tokens": 200, "temperature": 0})
        self.assertEqual(len(reply.json["choices"][0]["message"]["tool_calls"]), 1)
        eventually(lambda: len(self.collector.servers()), 1)
        root, = self.collector.servers()
        self.assertEqual(attributes(root)["espalier.tool_calls"], 1)
        call, = [s for s in self.collector.spans() if s["name"] == "tool_call"]
        decode, = [s for s in self.collector.spans() if s["name"] == "decode"]
        self.assertEqual(call["parentSpanId"], root["spanId"])
        self.assertLessEqual(int(decode["startTimeUnixNano"]), int(call["startTimeUnixNano"]) + 1_000_000)
        self.assertNotIn("the_secret_tool", json.dumps(self.collector.bodies))

    def test_failures_say_what_they_were(self):
        server = self.start("--max-total-tokens", "512")
        refused = server.post("/generate", {**SHORT, "sampling_params": {"max_new_tokens": 4, "stop": ["x"] * 99}})
        self.assertEqual(refused.status, 400)  # refused before any work: no span, and an answer with a traceparent all the same
        self.assertRegex(refused.headers["traceparent"], "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$")
        late = server.post("/generate", {**SHORT, "sampling_params": {"temperature": 0, "max_new_tokens": 400, "ignore_eos": True}},
                           headers={"x-deadline-ms": "1"})
        self.assertEqual(late.status, 408, late.body)
        eventually(lambda: [attributes(s).get("error.type") for s in self.collector.servers()], ["deadline_exceeded"])

    def test_the_callers_decision_and_the_sampler_count(self):
        server = self.start(OTEL_TRACES_SAMPLER="parentbased_always_off")
        reply = server.post("/generate", SHORT)
        self.assertTrue(reply.headers["traceparent"].endswith("-00"))
        server.post("/generate", SHORT, headers={"traceparent": PARENT[:-2] + "00"})
        server.post("/generate", SHORT, headers={"traceparent": PARENT})
        eventually(lambda: [s["traceId"] for s in self.collector.servers()], [PARENT[3:35]])

    def test_the_last_requests_are_sent_before_the_end(self):
        server = self.start()
        server.post("/generate", SHORT)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(len(self.collector.servers()), 1)

    def test_a_collector_that_hangs_holds_nothing_up(self):
        server = self.start(collector=Collector(delay=3))
        began = time.monotonic()
        for _ in range(20):
            self.assertEqual(server.post("/generate", SHORT).status, 200)
        self.assertLess(time.monotonic() - began, 3)
        began = time.monotonic()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - began, 3.5)

    def test_a_collector_that_refuses_is_counted_and_told(self):
        server = self.start(collector=Collector(status=400))
        server.post("/generate", SHORT)
        server.wait_metric("espalier_traces_dropped_total", 1)
        self.assertIn("traces are lost", server.text())

    def test_one_that_is_busy_is_asked_again(self):
        server = self.start(collector=Collector(status=503))
        server.post("/generate", SHORT)
        eventually(lambda: len(self.collector.bodies) >= 1, True)
        self.collector.status = 200
        server.wait_metric("espalier_traces_sent_total", 1)

    def test_a_wrong_variable_is_named_at_the_start(self):
        server = Server(wait=False, env={"OTEL_EXPORTER_OTLP_ENDPOINT": "nowhere"})
        self.addCleanup(server.kill)
        self.assertEqual(server.process.wait(30), 2)
        self.assertIn("OTEL_EXPORTER_OTLP_ENDPOINT", server.text())


class WithoutCollector(unittest.TestCase):
    def test_a_callers_trace_goes_on_and_nobody_elses_begins(self):
        with Server() as server:
            reply = server.post("/generate", SHORT, headers={"traceparent": PARENT})
            self.assertTrue(reply.headers["traceparent"].startswith(PARENT[:36]))
            self.assertNotEqual(reply.headers["traceparent"], PARENT)
            self.assertNotIn("traceparent", server.post("/generate", SHORT).headers)
            stream = server.post("/generate", {**SHORT, "stream": True}, headers={"traceparent": PARENT})
            self.assertTrue(stream.headers["traceparent"].startswith(PARENT[:36]))

    def test_json_lines_carry_the_trace_and_the_figures(self):
        server = Server("--log-format", "json", wait=False)
        self.addCleanup(server.kill)
        ready = {}

        def started():
            for line in server.text().splitlines():
                if line.startswith("{") and "url" in (entry := json.loads(line)):
                    ready.update(entry)
            return bool(ready)

        eventually(started, True, 30)
        server.port = int(ready["url"].rsplit(":", 1)[1])
        reply = server.post("/generate", SHORT, headers={"traceparent": PARENT, "x-request-id": "mine"})
        self.assertEqual(reply.status, 200)
        eventually(lambda: '"id":"mine"' in server.text(), True)
        lines = [json.loads(line) for line in server.text().splitlines()]  # every line is one
        line, = [entry for entry in lines if entry.get("id") == "mine"]
        self.assertEqual((line["trace_id"], line["route"], line["status"], line["completion_tokens"]), (PARENT[3:35], "/generate", 200, 6))
        self.assertGreaterEqual(line["total_seconds"], line["first_token_seconds"])


if __name__ == "__main__":
    unittest.main()
