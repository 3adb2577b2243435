"""More than the server can take: hopeless prompts, connections beyond the limits. Short requests go on, nobody is reset."""
import json
import re
import resource
import socket
import threading
import unittest

from harness import GOLDEN, Server, eventually, in_parallel, sanitized

SHORT = {"input_ids": [1], "sampling_params": {"temperature": 0, "max_new_tokens": 4, "ignore_eos": True}}
LONG = {"input_ids": [1], "stream": True, "sampling_params": {"temperature": 0, "max_new_tokens": 500, "ignore_eos": True}}
MIB = 1 << 20


def memory(server, what):
    """Bytes: VmRSS, what it has now; VmHWM, the most that it had."""
    with open(f"/proc/{server.process.pid}/status") as status:
        return int(re.search(what + r":\s+(\d+) kB", status.read()).group(1)) << 10


class HopelessPrompts(unittest.TestCase):
    TEXTS = {"one word": "a" * (30 * MIB), "words": "hello world " * (30 * MIB // 12), "spaces": " " * (30 * MIB),
             "control characters": "\x01\x02" * (2 * MIB), "quotes": '"\n' * (7 * MIB), "three bytes each": "\u20ac" * (9 * MIB)}

    def test_they_are_refused_by_their_bytes_with_little_memory(self):
        for name, text in self.TEXTS.items():
            with Server() as server:
                before = memory(server, "VmHWM")
                bodies = [("/generate", {"text": text}, "text"), ("/generate", {"text": ["a", text]}, "text[1]"),
                          ("/v1/completions", {"prompt": text}, "prompt"), ("/tokenize", {"messages": [{"role": "user", "content": text}]}, "messages"),
                          ("/v1/chat/completions", {"messages": [{"role": "user", "content": text}]}, "messages")]
                for path, body, param in bodies:
                    data = json.dumps(body, ensure_ascii=False).encode()
                    reply = server.post(path, data, headers={"Content-Type": "application/json"})
                    self.assertEqual(reply.status, 400, (name, path, reply.body[:300]))
                    error = reply.json["error"]
                    self.assertEqual((error["code"], error["param"]), ("context_length_exceeded", param), (name, path))
                    # A reply may come before its body's memory is given back; the next body is not to lie beside it.
                    if not sanitized():
                        eventually(lambda: memory(server, "VmRSS") < before + 80 * MIB, True, what="given back")
                grown = (memory(server, "VmHWM") - before) / MIB
                print(f"{name}: the peak grew by {grown:.0f} MiB")
                if not sanitized():  # a sanitizer holds back 256 MiB of what was freed
                    self.assertLess(grown, 140, name)  # the body, its JSON, and what the allocator keeps
                self.assertEqual(server.generate(**SHORT)["output_ids"], GOLDEN["prompts"][0]["greedy"][:4])

    def test_texts_that_fit_are_not_refused(self):
        with Server() as server:
            limit = server.get("/get_model_info").json["context_length"]
            unit = server.post("/tokenize", {"prompt": "a" * 64, "add_special_tokens": False}).json["count"] / 64
            fits = "a" * int((limit - 40) / unit)
            reply = server.post("/v1/completions", {"prompt": fits, "max_tokens": 1})
            self.assertEqual(reply.status, 200, reply.body[:300])
            reply = server.post("/v1/completions", {"prompt": "a" * int((limit + 40) / unit), "max_tokens": 1})
            self.assertEqual((reply.status, reply.json["error"]["code"]), (400, "context_length_exceeded"))

    def test_texts_to_tokenise_have_a_limit(self):
        with Server() as server:
            reply = server.post("/tokenize", {"prompt": "a" * (5 * MIB)})
            self.assertEqual((reply.status, reply.json["error"]["param"]), (413, "prompt"))

    def test_short_requests_do_not_wait_behind_them(self):
        # 40 large bodies are more than four of the largest: the surplus is told to come back.
        body = json.dumps({"text": "hello world " * (14 * MIB // 12)}).encode()
        with Server() as server:
            done, statuses = threading.Event(), []

            def send(_):
                try:
                    return server.post("/generate", body).status
                except ConnectionError:  # answered, but still sending when the server's patience (linger_timeout) was over
                    return 503

            def flood():
                try:
                    statuses.extend(in_parallel(40, send))
                finally:
                    done.set()

            thread = threading.Thread(target=flood)
            thread.start()
            while not done.is_set():
                self.assertEqual(server.generate(**SHORT)["output_ids"], GOLDEN["prompts"][0]["greedy"][:4])
            thread.join()
            self.assertTrue(set(statuses) <= {400, 429, 503}, statuses)
            self.assertIn(400, statuses)


class Connections(unittest.TestCase):
    def answers(self, server, count):
        """What `count` clients at once are answered: statuses, or the name of the exception."""
        def one(_):
            try:
                with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
                    raw.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    data = b""
                    while b"\r\n\r\n" not in data:
                        piece = raw.recv(4096)
                        if not piece:
                            return "closed"
                        data += piece
                    return int(data.split(b" ")[1])
            except OSError as failure:
                return type(failure).__name__

        return in_parallel(count, one)

    def test_over_the_limit_there_are_refusals_but_no_resets(self):
        with Server("--max-connections", "4") as server:
            held = [server.open_stream("/generate", LONG) for _ in range(4)]
            for raw in held:
                raw.recv(100)
            found = self.answers(server, 200)
            for raw in held:
                raw.close()
            self.assertTrue(set(found) <= {200, 503}, set(found))
            self.assertEqual(server.get("/version").status, 200)
            self.assertLessEqual(server.text().count("as many as --max-connections"), 1)

    def test_with_few_descriptors_there_are_no_resets_either(self):
        with Server(limits={resource.RLIMIT_NOFILE: 96}) as server:
            idle = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(40)]
            found = self.answers(server, 200)
            for raw in idle:
                raw.close()
            self.assertTrue(set(found) <= {200, 503}, set(found))
            self.assertIn(200, found)
            self.assertLessEqual(server.text().count("WARNING") + server.text().count("warning"), 2, server.text())

    def test_one_address_may_use_all_connections_of_a_loopback_bind(self):
        with Server() as server:
            many = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(600)]
            self.assertEqual(server.get("/version").status, 200)
            for raw in many:
                raw.close()


if __name__ == "__main__":
    unittest.main()
