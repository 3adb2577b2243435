"""Keys with terms: requests and tokens a minute, an end, what SIGHUP changes; as clients see them."""
import pathlib
import signal
import tempfile
import time
import unittest

from harness import Server, eventually

SHORT = {"input_ids": [1], "sampling_params": {"temperature": 0, "max_new_tokens": 4, "ignore_eos": True}}


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


class KeyTerms(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "keys"

    def serve(self, text):
        self.file.write_text(text)
        server = Server("--api-key-file", str(self.file))
        self.addCleanup(server.kill)
        return server

    def generate(self, server, key, **more):
        return server.post("/generate", SHORT, headers=bearer(key), **more)

    def reread(self, server):
        before = server.text().count("keys were read again") + server.text().count("keys stay as they were")
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: server.text().count("keys were read again") + server.text().count("keys stay as they were"), before + 1)

    def test_requests_a_minute_are_counted_told_and_refused(self):
        server = self.serve("open\nslow name=slow rpm=3\n")
        left = []
        for _ in range(3):
            reply = self.generate(server, "slow")
            self.assertEqual((reply.status, reply.headers["x-ratelimit-limit-requests"]), (200, "3"))
            left.append(int(reply.headers["x-ratelimit-remaining-requests"]))
        self.assertEqual(left, [2, 1, 0])
        refused = self.generate(server, "slow")
        self.assertEqual(refused.status, 429)
        error = refused.json["error"]
        self.assertEqual((error["type"], error["code"]), ("rate_limit_error", "rate_limit_exceeded"))
        self.assertIn("3 requests a minute", error["message"])
        self.assertTrue(1 <= int(refused.headers["Retry-After"]) <= 20, refused.headers["Retry-After"])
        self.assertRegex(refused.headers["x-ratelimit-reset-requests"], r"^\d+(s|m\d+s)$")
        # What costs no work stays allowed, and other keys are not touched.
        self.assertEqual(server.get("/v1/models", headers=bearer("slow")).status, 200)
        other = self.generate(server, "open")
        self.assertEqual(other.status, 200)
        self.assertNotIn("x-ratelimit-limit-requests", other.headers)
        self.assertEqual(server.metric('espalier_rejected_total{reason="rate_limit_exceeded"}'), 1)

    def test_streams_say_what_is_left_too(self):
        server = self.serve("slow rpm=5 tpm=1000\n")
        reply = server.post("/generate", {**SHORT, "stream": True}, headers=bearer("slow"))
        self.assertEqual(reply.headers["x-ratelimit-remaining-requests"], "4")
        self.assertEqual(reply.headers["x-ratelimit-limit-tokens"], "1000")

    def test_tokens_a_minute_count_prompts_and_outputs(self):
        server = self.serve("slow tpm=40\n")
        body = {"input_ids": [1] * 30, "sampling_params": {"temperature": 0, "max_new_tokens": 20, "ignore_eos": True}}
        self.assertEqual(server.post("/generate", body, headers=bearer("slow")).status, 200)
        refused = server.post("/generate", SHORT, headers=bearer("slow"))  # 50 of 40: below nothing
        self.assertEqual(refused.status, 429)
        self.assertEqual(refused.headers["x-ratelimit-remaining-tokens"], "0")
        self.assertTrue(10 <= int(refused.headers["Retry-After"]) <= 18, refused.headers["Retry-After"])
        embedded = server.post("/v1/chat/completions", {"messages": []}, headers=bearer("slow"))
        self.assertEqual(embedded.status, 429, "before the body is looked at")

    def test_a_key_ends_at_its_time_without_anybody_doing_anything(self):
        end = int(time.time()) + 3
        server = self.serve("short expires=" + time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end)) + "\nlong\n")
        self.assertEqual(self.generate(server, "short").status, 200)
        eventually(lambda: self.generate(server, "short").status, 401)
        self.assertGreaterEqual(time.time(), end)
        self.assertIn("expired", self.generate(server, "short").json["error"]["message"])
        self.assertEqual(self.generate(server, "long").status, 200)

    def test_sighup_changes_terms_and_a_wrong_file_changes_nothing(self):
        server = self.serve("a rpm=1\nb\n")
        self.assertEqual(self.generate(server, "a").status, 200)
        self.assertEqual(self.generate(server, "a").status, 429)
        self.file.write_text("a rpm=100\n")
        self.reread(server)
        self.assertEqual(self.generate(server, "a").status, 200)
        self.assertEqual(self.generate(server, "b").status, 401)
        self.file.write_text("a rpm=none\nb\n")
        self.reread(server)
        self.assertIn("line 1: rpm=none must be a whole number", server.text())
        self.assertEqual(self.generate(server, "a").status, 200)
        self.assertEqual(self.generate(server, "b").status, 401)


if __name__ == "__main__":
    unittest.main()
