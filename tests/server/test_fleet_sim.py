"""What the simulator says of several servers, against several servers: here a router that takes turns, so that every
decision is known. Real routers: bench/fleet_beside_sim.py."""
import contextlib
import http.client
import http.server
import itertools
import json
import subprocess
import threading
import unittest

from harness import BINARY, MODEL, Server

DATA = ("--dataset-name", "generated-shared-prefix", "--gsp-num-groups", "5", "--gsp-prompts-per-group", "9",
        "--gsp-system-prompt-len", "120", "--gsp-question-len", "20", "--gsp-output-len", "6", "--prompt-form", "ids",
        "--max-concurrency", "1", "--seed", "7", "--tokenizer", str(MODEL))
POOL = 900  # tokens: prefixes leave


class TakesTurns(http.server.BaseHTTPRequestHandler):
    """Passes each POST to the next server, anything else to the first."""
    protocol_version = "HTTP/1.1"
    turns = ()
    ports = ()

    def pass_on(self, port):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        there = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        there.request(self.command, self.path, body or None, {"Content-Type": "application/json"})
        reply = there.getresponse()
        answer = reply.read()
        there.close()
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.headers["Content-Type"] or "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_POST(self):
        self.pass_on(next(self.turns))

    def do_GET(self):
        self.pass_on(self.ports[0])

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def router(servers):
    ports = [server.port for server in servers]
    handler = type("Turns", (TakesTurns,), {"turns": itertools.cycle(ports), "ports": ports})
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=proxy.serve_forever)
    thread.start()
    try:
        yield proxy.server_address[1]
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()


def bench(*words):
    done = subprocess.run([BINARY, "bench", *map(str, words), "--json"], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


class AgainstServers(unittest.TestCase):
    def test_each_prompt_finds_as_much_in_the_caches_as_was_predicted(self):
        for replicas in (1, 3):
            with self.subTest(replicas=replicas), contextlib.ExitStack() as stack:
                servers = [stack.enter_context(Server("--max-total-tokens", str(POOL), "--no-cache-disk")) for _ in range(replicas)]
                port = stack.enter_context(router(servers))
                measured = bench("serving", "--port", port, "--warmup-requests", 0, *DATA)
                predicted = bench("sim", "--replicas", replicas, "--router", "round_robin", "--pool-tokens", POOL, *DATA)
                self.assertEqual(measured["failed"], 0)
                self.assertGreater(predicted["evicted_tokens"], 0)
                self.assertEqual(predicted["input_tokens"], measured["total_input_tokens"])
                print(f"{replicas} servers: predicted {predicted['cache_hit_rate_pct']:.2f} %, measured {measured['cache_hit_rate_pct']:.2f} %")
                self.assertEqual(predicted["cached_tokens"], measured["total_cached_tokens"])


if __name__ == "__main__":
    unittest.main()
