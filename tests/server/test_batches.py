"""Files and batches: uploads, hostile forms, results in JSONL, cancelled, refused, after a crash."""
import json
import pathlib
import signal
import tempfile
import time
import unittest

from harness import Server
from test_tools import SHOWS, TOOLS

try:
    import openai
except ImportError:
    openai = None

CHAT, TEXT, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"


def form(fields, boundary="XyZ"):
    body = b""
    for name, filename, content in fields:
        file = f'; filename="{filename}"' if filename else ""
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode() + content + b"\r\n"
    return body + f"--{boundary}--\r\n".encode()


def chat_line(name, **more):
    body = {"messages": [{"role": "user", "content": name}], "max_tokens": 8, "temperature": 1, "seed": len(name), **more}
    return {"custom_id": name, "method": "POST", "url": CHAT, "body": body}


def jsonl(lines):
    return "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines).encode()


class BatchCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.data = folder.name + "/data"

    def start(self, *flags):
        server = Server("--chat-template", SHOWS, "--data-dir", self.data, *flags)
        self.addCleanup(server.kill)
        return server

    def upload(self, server, content, purpose="batch", status=200, headers=None, fields=None):
        fields = fields if fields is not None else [("purpose", "", purpose.encode()), ("file", "in.jsonl", content)]
        reply = server.post("/v1/files", form(fields), headers={"Content-Type": "multipart/form-data; boundary=XyZ", **(headers or {})})
        self.assertEqual(reply.status, status, reply.body)
        return reply.json

    def create(self, server, lines, endpoint=CHAT, status=200, **more):
        file = self.upload(server, jsonl(lines))
        reply = server.post("/v1/batches", {"input_file_id": file["id"], "endpoint": endpoint, "completion_window": "24h", **more})
        self.assertEqual(reply.status, status, reply.body)
        return reply.json

    def wait_for(self, server, batch, *states, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            now = server.get("/v1/batches/" + batch["id"]).json
            if now["status"] in (states or ("completed", "failed", "cancelled", "expired")):
                return now
            time.sleep(0.05)
        raise AssertionError(f"the batch did not end: {now}")

    def lines_of(self, server, file):
        if file is None:
            return []
        content = server.get(f"/v1/files/{file}/content").body.decode()
        self.assertEqual(server.get(f"/v1/files/{file}").json["bytes"], len(content.encode()))
        self.assertTrue(content.endswith("\n"))
        return [json.loads(line) for line in content.splitlines()]


class Files(BatchCase):
    def test_a_file_is_stored_listed_given_back_and_deleted(self):
        server = self.start()
        contents = [b"{}\n", bytes(range(256)) * 40_000, "ü".encode()]
        files = [self.upload(server, content) for content in contents]
        for file, content in zip(files, contents):
            self.assertEqual((file["object"], file["bytes"], file["filename"], file["purpose"], file["status"]),
                             ("file", len(content), "in.jsonl", "batch", "processed"))
            self.assertEqual(server.get("/v1/files/" + file["id"]).json, file)
            reply = server.get(f"/v1/files/{file['id']}/content")
            self.assertEqual((reply.body, reply.headers["Content-Type"]), (content, "application/octet-stream"))
        other = self.upload(server, b"x", "user_data")
        self.assertEqual(server.get("/v1/files?purpose=batch&order=asc").json["data"], files)
        self.assertEqual(server.get("/v1/files?limit=1").json["data"], [other])
        self.assertEqual(server.get(f"/v1/files?limit=2&after={other['id']}").json["data"], files[:0:-1])
        self.assertEqual(server.request("DELETE", "/v1/files/" + other["id"]).json, {"id": other["id"], "object": "file", "deleted": True})
        for path in ("", "/content"):
            self.assertEqual(server.get(f"/v1/files/{other['id']}{path}").status, 404)

    def test_what_is_no_proper_form_is_refused(self):
        server = self.start("--max-body", "1")
        self.upload(server, b"x", "dance", 400)
        self.upload(server, b"", status=400)
        good = ("purpose", "", b"batch")
        for fields in ([], [good], [("file", "a", b"x")], [good, good, ("file", "a", b"x")], [good, ("file", "a\nb", b"x")],
                       [good, ("file", "a" * 256, b"x")], [good] + [("file", "a", b"x")] * 70,
                       [good, ("file", "a", b"x"), ("expires_after[anchor]", "", b"created_at"), ("expires_after[seconds]", "", b"1")]):
            self.upload(server, b"", fields=fields, status=400)
        self.upload(server, b"", status=200, fields=[good, ("file", "../../etc/passwd", b"x"), ("expires_after[anchor]", "", b"created_at"),
                                                     ("expires_after[seconds]", "", b"3600")])
        for headers, body, status in (({"Content-Type": "application/json"}, b"{}", 415), ({"Content-Type": "multipart/form-data"}, b"x", 400),
                                      ({"Content-Type": "multipart/form-data; boundary=b"}, b"--b\r\n" * 1000, 400),
                                      ({"Content-Type": "multipart/form-data; boundary=b"}, b"--b\r\nX: " + b"x" * 500_000, 400)):
            reply = server.post("/v1/files", body, headers=headers)
            self.assertEqual((reply.status, reply.json["error"]["type"]), (status, "invalid_request_error"))
        reply = server.post("/v1/files", form([good, ("file", "a", b"x" * (1 << 20))]),
                            headers={"Content-Type": "multipart/form-data; boundary=XyZ"})
        self.assertEqual((reply.status, reply.json["error"]["code"]), (413, "body_too_large"))

    def test_a_file_is_its_keys_alone(self):
        server = self.start("--api-key", "one", "--api-key", "two")
        one, two = {"Authorization": "Bearer one"}, {"Authorization": "Bearer two"}
        file = self.upload(server, jsonl([chat_line("a")]), headers=one)
        for path in ("", "/content"):
            self.assertEqual(server.get(f"/v1/files/{file['id']}{path}", headers=two).status, 404)
        self.assertEqual(server.get("/v1/files", headers=two).json["data"], [])
        asked = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"}
        self.assertEqual(server.post("/v1/batches", asked, headers=two).status, 404)
        batch = server.post("/v1/batches", asked, headers=one).json
        self.assertEqual(server.get("/v1/batches/" + batch["id"], headers=two).status, 404)
        self.assertEqual(server.get("/v1/batches", headers=two).json["data"], [])
        while (now := server.get("/v1/batches/" + batch["id"], headers=one).json)["status"] != "completed":
            time.sleep(0.05)
        self.assertEqual(server.get(f"/v1/files/{now['output_file_id']}/content", headers=two).status, 404)


class Batches(BatchCase):
    def test_a_batch_says_what_the_route_says(self):
        server = self.start()
        for url, bodies in ((CHAT, [chat_line("a" * (1 + i))["body"] for i in range(40)] +
                             [{**chat_line("t")["body"], "tools": TOOLS, "tool_choice": "required", "max_tokens": 300}]),
                            (TEXT, [{"prompt": ["a", "b"], "max_tokens": 5, "seed": i, "logprobs": 2} for i in range(5)]),
                            (RESPONSES, [{"input": str(i), "max_output_tokens": 5, "seed": i, "temperature": 1} for i in range(5)])):
            lines = [{"custom_id": f"l{i}", "method": "POST", "url": url, "body": body} for i, body in enumerate(bodies)]
            made = self.create(server, lines, url, metadata={"a": "b"})
            self.assertEqual((made["object"], made["status"], made["endpoint"]), ("batch", "validating", url))
            batch = self.wait_for(server, made)
            self.assertEqual((batch["status"], batch["metadata"]), ("completed", {"a": "b"}))
            self.assertEqual(batch["request_counts"], {"total": len(lines), "completed": len(lines), "failed": 0})
            self.assertIsNone(batch["error_file_id"])
            results = self.lines_of(server, batch["output_file_id"])
            self.assertEqual([r["custom_id"] for r in results], [line["custom_id"] for line in lines])
            for result, body in zip(results, bodies):
                self.assertEqual((result["response"]["status_code"], result["error"]), (200, None))
                told, direct = result["response"]["body"], server.post(url, body).json
                for reply in (told, direct):
                    for choice in reply.get("choices", []):
                        for call in choice.get("message", {}).get("tool_calls", []):
                            call.pop("id")
                    for item in reply.get("output", []):
                        item.pop("id")
                name = "output" if url == RESPONSES else "choices"
                self.assertEqual(told[name], direct[name])
            if url == RESPONSES:
                self.assertEqual(server.get("/v1/responses/" + results[0]["response"]["body"]["id"]).status, 200)
        listed = server.get("/v1/batches?limit=2").json
        self.assertEqual((len(listed["data"]), listed["has_more"], listed["data"][0]["id"]), (2, True, made["id"]))

    def test_lines_that_fail_are_told_apart(self):
        server = self.start()
        lines = [chat_line("good"), chat_line("bad", temperature=-1), chat_line("stream", stream=True), chat_line("model", model="other"),
                 chat_line("long", messages=[{"role": "user", "content": "x " * 2000}]), chat_line("good too")]
        batch = self.wait_for(server, self.create(server, lines))
        self.assertEqual(batch["request_counts"], {"total": 6, "completed": 2, "failed": 4})
        self.assertEqual([r["custom_id"] for r in self.lines_of(server, batch["output_file_id"])], ["good", "good too"])
        errors = {r["custom_id"]: r["response"] for r in self.lines_of(server, batch["error_file_id"])}
        self.assertEqual({name: r["status_code"] for name, r in errors.items()}, {"bad": 400, "stream": 400, "model": 404, "long": 400})
        self.assertEqual(errors["bad"]["body"]["error"]["param"], "temperature")
        self.assertEqual(errors["stream"]["body"]["error"]["param"], "stream")
        background = {"custom_id": "b", "method": "POST", "url": RESPONSES, "body": {"input": "x", "background": True}}
        batch = self.wait_for(server, self.create(server, [background], RESPONSES))
        self.assertEqual((batch["output_file_id"], batch["request_counts"]["failed"]), (None, 1))

    def test_a_file_that_is_no_batch_fails_as_a_whole(self):
        server = self.start()
        lines = [chat_line("a"), "{", chat_line("a"), {**chat_line("b"), "url": TEXT}, {**chat_line("c"), "method": "GET"},
                 {"custom_id": "d", "method": "POST", "url": CHAT}, {**chat_line("e"), "body": [1]}, "[]", {**chat_line("f"), "custom_id": 3}]
        batch = self.wait_for(server, self.create(server, lines))
        self.assertEqual((batch["status"], batch["output_file_id"]), ("failed", None))
        told = [(fault["line"], fault["code"]) for fault in batch["errors"]["data"]]
        self.assertEqual(told, [(2, "invalid_json_line"), (3, "duplicate_custom_id"), (4, "mismatched_url"), (5, "invalid_method"),
                                (6, "invalid_request"), (7, "invalid_request"), (8, "invalid_json_line"), (9, "invalid_request")])
        self.assertEqual(self.wait_for(server, self.create(server, [" ", ""]))["errors"]["data"][0]["code"], "empty_file")
        batch = self.create(server, [chat_line("x")])
        self.assertEqual(server.post(f"/v1/batches/{self.wait_for(server, batch)['id']}/cancel", "").status, 400)

    def test_what_cannot_be_a_batch_is_refused(self):
        server = self.start()
        file = self.upload(server, jsonl([chat_line("a")]))["id"]
        other = self.upload(server, b"x", "user_data")["id"]
        good = {"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"}
        for more, status, field in (({"input_file_id": "file-x"}, 404, "input_file_id"), ({"input_file_id": other}, 400, "input_file_id"),
                                    ({"endpoint": "/v1/messages"}, 400, "endpoint"), ({"completion_window": "1h"}, 400, "completion_window"),
                                    ({"endpoint": None}, 400, "endpoint"), ({"metadata": []}, 400, "metadata")):
            reply = server.post("/v1/batches", {**good, **more})
            self.assertEqual((reply.status, reply.json["error"]["param"]), (status, field), more)
        if server.request("OPTIONS", "/v1/embeddings").status == 404:
            self.assertEqual(server.post("/v1/batches", {**good, "endpoint": "/v1/embeddings"}).status, 400)
        self.assertEqual(server.get("/v1/batches/batch_x").status, 404)
        self.assertEqual(server.get("/v1/batches").json["data"], [])

    def test_a_batch_is_cancelled_and_keeps_what_it_has(self):
        server = self.start()
        lines = [chat_line(f"l{i}", max_tokens=200, ignore_eos=True) for i in range(400)]
        batch = self.create(server, lines)
        later = self.create(server, [chat_line("a")])
        while server.get("/v1/batches/" + batch["id"]).json["request_counts"]["completed"] == 0:
            time.sleep(0.02)
        self.assertEqual(server.post(f"/v1/batches/{batch['id']}/cancel", "").json["status"], "cancelling")
        ended = self.wait_for(server, batch)
        self.assertEqual(ended["status"], "cancelled")
        done = self.lines_of(server, ended["output_file_id"])
        self.assertEqual(len(done), ended["request_counts"]["completed"])
        self.assertLess(len(done), 400)
        self.assertEqual(self.wait_for(server, later)["status"], "completed")

    def test_a_batch_gives_way(self):
        server = self.start("--max-running-requests", "2")
        batch = self.create(server, [chat_line(f"l{i}", max_tokens=300, ignore_eos=True) for i in range(60)])
        self.wait_for(server, batch, "in_progress")
        server.wait_metric("sglang:num_running_reqs", 2)
        for i in range(5):
            self.assertEqual(server.post(CHAT, chat_line("now")["body"]).status, 200)
        counts = server.get("/v1/batches/" + batch["id"]).json["request_counts"]
        self.assertLess(counts["completed"], 60, "others did not wait for the batch")
        server.post(f"/v1/batches/{batch['id']}/cancel", "")
        self.wait_for(server, batch)

    def test_a_batch_outlives_kills(self):
        lines = [chat_line(f"line {i:03}", max_tokens=60, ignore_eos=True, seed=i) for i in range(120)]
        flags = ("--max-running-requests", "4")  # slow enough that kills come in the middle
        server = self.start(*flags)
        batch = self.create(server, lines)
        killed_at = []
        for _ in range(3):
            counted = server.get("/v1/batches/" + batch["id"]).json["request_counts"]["completed"]
            while (now := server.get("/v1/batches/" + batch["id"]).json)["request_counts"]["completed"] == counted < len(lines):
                time.sleep(0.01)
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            killed_at.append(now["request_counts"]["completed"])
            server = self.start(*flags)
            again = server.get("/v1/batches/" + batch["id"]).json["request_counts"]["completed"]
            self.assertGreaterEqual(again, killed_at[-1], "what was counted is there")
        self.assertLess(killed_at[0], len(lines), "the batch had ended before the first kill")
        ended = self.wait_for(server, batch)
        self.assertEqual(ended["request_counts"], {"total": 120, "completed": 120, "failed": 0})
        results = self.lines_of(server, ended["output_file_id"])
        self.assertEqual([r["custom_id"] for r in results], [line["custom_id"] for line in lines], "each once, in order")
        for i in (0, 57, 119):
            self.assertEqual(results[i]["response"]["body"]["choices"], server.post(CHAT, lines[i]["body"]).json["choices"])

    def test_a_server_that_is_told_to_end_leaves_the_rest_to_the_next(self):
        server = self.start()
        batch = self.create(server, [chat_line(f"l{i}", max_tokens=100, ignore_eos=True) for i in range(100)])
        self.wait_for(server, batch, "in_progress")
        self.assertIn(server.stop(), (0, 143))
        server = self.start()
        ended = self.wait_for(server, batch)
        self.assertEqual(ended["request_counts"], {"total": 100, "completed": 100, "failed": 0})

    @unittest.skipIf(openai is None, "the openai client is not installed")
    def test_openais_client_runs_a_batch(self):
        server = self.start()
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="any", max_retries=0)
        path = pathlib.Path(self.data + ".jsonl")
        path.write_bytes(jsonl([chat_line("a"), chat_line("b", temperature=-1)]))
        with path.open("rb") as source:
            file = client.files.create(file=source, purpose="batch")
        self.assertEqual((file.filename, client.files.retrieve(file.id).bytes), (path.name, path.stat().st_size))
        self.assertEqual(client.files.content(file.id).read(), path.read_bytes())
        batch = client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
        while batch.status not in ("completed", "failed"):
            batch = client.batches.retrieve(batch.id)
        self.assertEqual((batch.status, batch.request_counts.completed, batch.request_counts.failed), ("completed", 1, 1))
        result = json.loads(client.files.content(batch.output_file_id).text)
        self.assertEqual(result["custom_id"], "a")
        self.assertEqual([b.id for b in client.batches.list()], [batch.id])
        self.assertEqual({f.purpose for f in client.files.list()}, {"batch", "batch_output"})
        self.assertTrue(client.files.delete(file.id).deleted)


if __name__ == "__main__":
    unittest.main()
