"""The verbs about models on this machine: pull, list, show, plan, rm against a hub of this test; ps, doctor, completion."""
import hashlib
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import unittest

from program import MODEL, espalier

import harness

COMMIT = "c" * 40
FILES = {path.name: path.read_bytes() for path in sorted(MODEL.iterdir()) if path.is_file() and path.name not in ("golden.json", "logits.safetensors")}


def is_large(name):
    return name.endswith(".safetensors")


def entry(name, content):
    git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    large = {"lfs": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}} if is_large(name) else {}
    return {"rfilename": name, "size": len(content), "blobId": git, **large}


class Hub:
    """A hub on one port, which redirects large files to another; the first connection of one breaks in the middle."""

    def __init__(self):
        self.asked, self.leaked, self.cut, self.wrong = [], [], {"model.safetensors"}, set()
        self.files = dict(FILES, **{"pytorch_model.bin": b"pickle", "modeling_x.py": b"code"})
        self.cdn = self.serve(self.answer_cdn)
        self.hub = self.serve(self.answer_hub)
        self.url = f"http://127.0.0.1:{self.hub.server_port}"

    def serve(self, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                answer(self)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def stop(self):
        for server in (self.hub, self.cdn):
            server.shutdown()
            server.server_close()

    @staticmethod
    def reply(request, status, body=b"", headers=()):
        request.send_response(status)
        for name, value in headers:
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(body)

    def answer_hub(self, request):
        self.asked.append(request.path)
        if request.path.startswith("/api/models/org/tiny/revision/main"):
            body = {"sha": COMMIT, "siblings": [entry(name, content) for name, content in self.files.items()]}
            return self.reply(request, 200, json.dumps(body).encode())
        if request.path.startswith("/api/models/org/gated/"):
            known = request.headers.get("Authorization") == "Bearer hf_secret"
            return self.reply(request, 404 if known else 401, b"{}", [("X-Error-Code", "GatedRepo")])
        found = re.fullmatch(f"/org/tiny/resolve/{COMMIT}/(.+)", request.path)
        if not found or found[1] not in self.files:
            return self.reply(request, 404, b"{}")
        if is_large(found[1]):
            place = f"http://localhost:{self.cdn.server_port}/{found[1]}?signature=x"
            return self.reply(request, 302, b"", [("Location", place)])
        return self.reply(request, 200, self.files[found[1]])

    def answer_cdn(self, request):
        if request.headers.get("Authorization"):
            self.leaked.append(request.path)
        name = request.path[1:].split("?")[0]
        content = self.files[name]
        if name in self.wrong:
            content = bytes(len(content))
        begin = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range") or "bytes=0-")
        begin = int(begin[1])
        if name in self.cut and begin == 0:
            request.send_response(200)
            request.send_header("Content-Length", str(len(content)))
            request.end_headers()
            request.wfile.write(content[: len(content) // 2])
            request.close_connection = True
            return None
        if begin == 0:
            return self.reply(request, 200, content)
        where = [("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")]
        return self.reply(request, 206, content[begin:], where)


class FromAHub(unittest.TestCase):
    def setUp(self):
        self.hub = Hub()
        self.addCleanup(self.hub.stop)
        self.home = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.home, True)
        self.env = {"HF_HOME": str(self.home), "HF_ENDPOINT": self.hub.url, "ESPALIER_CACHE": str(self.home / "own"), "HF_TOKEN": "hf_secret"}

    def run_verb(self, *words, **env):
        return espalier(*words, env={**self.env, **env})

    def test_a_model_is_pulled_listed_shown_planned_served_and_removed(self):
        pulled = self.run_verb("pull", "org/tiny", "--progress", "none")
        self.assertEqual(pulled.code, 0, pulled)
        folder = pathlib.Path(pulled.out.strip())
        self.assertEqual(folder, self.home / "hub" / "models--org--tiny" / "snapshots" / COMMIT)
        self.assertEqual((self.home / "hub" / "models--org--tiny" / "refs" / "main").read_text(), COMMIT)
        self.assertEqual((folder / "model.safetensors").read_bytes(), FILES["model.safetensors"])
        self.assertFalse(any((folder / name).exists() for name in ("pytorch_model.bin", "modeling_x.py")))
        self.assertEqual(self.hub.leaked, [])
        self.assertNotIn("hf_secret", pulled.err)

        asked = len(self.hub.asked)
        listed = json.loads(self.run_verb("list", "--json").out)
        self.assertEqual((listed["name"], listed["path"]), ("org/tiny", str(folder)))
        shown = json.loads(self.run_verb("show", "org/tiny", "--json").out)
        self.assertEqual((shown["layers"] > 0, shown["context_length"], shown["servable"]), (True, 512, True))
        self.assertIn("LlamaForCausalLM", self.run_verb("show", "org/tiny").out)
        plan = json.loads(self.run_verb("plan", "org/tiny", "--json", "--max-total-tokens", "1024").out)
        self.assertEqual((plan["fits"], plan["pool_tokens"]), (True, 1024))
        self.assertEqual(self.run_verb("pull", "org/tiny", "--offline").out, pulled.out)
        with harness.Server("--no-allow-download", model="org/tiny", env=self.env) as server:
            self.assertEqual(server.get("/v1/models").json["data"][0]["id"], "org/tiny")
            base = ("--base-url", f"http://127.0.0.1:{server.port}")
            self.assertRegex(self.run_verb("ps", *base).out, r"org/tiny +loaded .* never")
            self.assertEqual(json.loads(self.run_verb("ps", *base, "--json").out)[0]["state"], "loaded")
        self.assertEqual(len(self.hub.asked), asked)

        removed = self.run_verb("rm", "org/tiny")
        self.assertEqual(removed.code, 0, removed)
        self.assertEqual(self.run_verb("list").out, "")
        self.assertEqual(self.run_verb("rm", "org/tiny").code, 3)

    def test_wrong_content_gets_no_name_and_the_next_pull_is_right(self):
        self.hub.wrong.add("model.safetensors")
        failed = self.run_verb("pull", "org/tiny", "--progress", "none")
        self.assertEqual(failed.code, 6, failed)
        self.assertIn("another hash", failed.err)
        self.assertEqual(self.run_verb("list").out, "")
        self.hub.wrong.clear()
        self.assertEqual(self.run_verb("pull", "org/tiny", "--progress", "none").code, 0)

    def test_a_client_has_a_model_fetched_where_the_operator_allows_it(self):
        with harness.Server("--allow-pull", "--served-model-name", "first", env=self.env) as server:
            pulled = server.post("/api/pull", {"model": "hf.co/org/tiny:latest"})
            lines = [json.loads(line) for line in pulled.body.splitlines()]
            self.assertEqual((lines[0], lines[-1]), ({"status": "pulling manifest"}, {"status": "success"}))
            counted = [line for line in lines if "total" in line]
            self.assertEqual(counted[-1]["completed"], counted[-1]["total"])
            self.assertRegex(counted[-1]["digest"], "^sha256:[0-9a-f]{64}$")
            self.assertEqual([one["id"] for one in server.get("/v1/models").json["data"]], ["first", "hf.co/org/tiny:latest", "org/tiny"])
            for name in ("first", "org/tiny", "hf.co/org/tiny:latest"):
                said = server.post("/api/generate", {"model": name, "prompt": "Hello", "raw": True, "stream": False,
                                                     "options": {"temperature": 0, "num_predict": 8}}).json
                self.assertEqual((said["model"], said["eval_count"]), (name, 8))
            asked = len(self.hub.asked)
            self.assertEqual(server.post("/api/pull", {"model": "org/tiny", "stream": False}).json, {"status": "success"})
            self.assertEqual(len(self.hub.asked), asked)
            for name in ("org/none", str(MODEL), "../tiny", "llama3.2"):  # what there is not; what is not the hub's
                refused = server.post("/api/pull", {"model": name, "stream": False})
                self.assertIn(refused.status, (400, 404), refused.body)
                self.assertNotIn("hf_secret", refused.body.decode())
            begun = server.post("/api/pull", {"model": "org/none"}).body.splitlines()
            self.assertIn("error", json.loads(begun[-1]))
            self.assertEqual(server.post("/api/generate", {"model": "first", "keep_alive": 0}).json["done_reason"], "unload")
            harness.eventually(lambda: "first:latest" in [one["name"] for one in server.get("/api/ps").json["models"]], False)
        with harness.Server(env=self.env) as server:
            self.assertIn("--allow-pull", server.post("/api/pull", {"model": "org/none"}).json["error"])

    def test_what_cannot_be_had_is_said_without_the_token(self):
        for name in ("org/gated", "org/none"):
            ended = self.run_verb("pull", name)
            self.assertNotEqual(ended.code, 0)
            self.assertNotIn("hf_secret", ended.err)
        self.assertEqual(self.run_verb("pull", "org/tiny", "--offline").code, 3)
        self.assertEqual(self.run_verb("show", "org/tiny").code, 3)  # shows what is here, and fetches nothing


class Machine(unittest.TestCase):
    def test_a_plan_tells_what_a_server_of_the_same_flags_has(self):
        flags = ("--kv-memory", "64M", "--kv-cache-dtype", "f32", "--max-running-requests", "8")
        plan = json.loads(espalier("plan", MODEL, "--json", *flags).out)
        with harness.Server(*flags) as server:
            info = server.get("/get_server_info").json
        self.assertEqual(plan["pool_tokens"], info["max_total_num_tokens"])
        self.assertEqual(plan["kv_type"], info["kv_cache_dtype"])
        text = espalier("plan", MODEL, *flags).out
        self.assertIn(f"{plan['pool_tokens']} tokens", text)
        self.assertTrue(plan["pool_fits"])
        self.assertNotIn("does not fit", text)

    def test_a_pool_that_is_larger_than_memory_is_told_of_by_plan_and_server(self):
        plan = json.loads(espalier("plan", MODEL, "--json").out)
        flags = ("--max-total-tokens", str(2 * plan["tokens_at_most"]))
        self.assertFalse(json.loads(espalier("plan", MODEL, "--json", *flags).out)["pool_fits"])
        self.assertIn("the pool does not fit", espalier("plan", MODEL, *flags).out)
        with harness.Server(*flags) as server:
            self.assertIn("smaller --max-total-tokens", server.text())
            self.assertEqual(server.post("/generate", {"text": "a", "sampling_params": {"max_new_tokens": 2}}).status, 200)

    def test_the_doctor_looks_at_everything_and_finds_a_port_that_is_taken(self):
        with tempfile.TemporaryDirectory() as home:
            env = {"ESPALIER_CACHE": home, "HF_HOME": home, "HF_TOKEN": "hf_secret"}
            well = espalier("doctor", "--port", "0", "--json", env=env)
            self.assertEqual(well.code, 0, well)
            found = {one["about"]: one for one in json.loads(well.out)}
            for about in ("instruction set", "processors", "memory", "open files", "models", "hub's models", "port"):
                self.assertIn(about, found)
            self.assertNotIn("hf_secret", well.out)
            with harness.Server() as server:
                taken = espalier("doctor", "--port", server.port, env=env)
            self.assertEqual(taken.code, 1)
            self.assertRegex(taken.out, r"bad +port")

    def test_ps_says_when_nobody_is_there(self):
        ended = espalier("ps", "--base-url", "http://127.0.0.1:9")
        self.assertEqual((ended.code, ended.out), (6, ""))

    def test_shells_complete_verbs_and_flags(self):
        bash = shutil.which("bash")
        script = espalier("completion", "bash").out
        for words, wanted in (("espalier pl", "plan"), ("espalier serve --model-i", "--model-idle"), ("espalier bench lat", "latency"),
                              ("espalier bench latency --input", "--input-len")):
            parts = words.split(" ")
            ask = f"COMP_WORDS=({' '.join(parts)}); COMP_CWORD={len(parts) - 1}; _espalier; printf '%s\\n' \"${{COMPREPLY[@]}}\""
            done = subprocess.run([bash, "--norc", "-c", script + "\n" + ask], capture_output=True, text=True, check=True,
                                  env={**os.environ, "PATH": f"{pathlib.Path(harness.BINARY).parent}:{os.environ['PATH']}"})
            self.assertIn(wanted, done.stdout.split(), done)
        for shell in ("zsh", "fish"):
            self.assertIn("doctor", espalier("completion", shell).out)
        self.assertEqual(espalier("completion", "tcsh").code, 2)


if __name__ == "__main__":
    unittest.main()
