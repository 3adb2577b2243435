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


def refused(*words):
    done = subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=60)
    if done.returncode == 0:
        raise AssertionError(f"taken: {words}")
    return done.stderr


class Flags(unittest.TestCase):
    def test_nonsense_is_refused_by_the_name_of_its_flag(self):
        for words, named in ((("--router", "best"), "--router best"), (("--router", "manual,bucket", "--replicas", 2), "--prefill-replicas"),
                             (("--assignment-mode", "any"), "--assignment-mode"), (("--link", "0,3"), "--link 0,3"), (("--replicas", 0), "--replicas"),
                             (("--remote-tier", "1"), "--remote-tier 1"), (("--remote-tier", "1,1", "--prefill-replicas", 1), "--remote-tier"),
                             (("--remote-tier", "1,1", "--remote-tier", "none"), "--remote-tier"), (("--machine", "abacus"), "--machine abacus"),
                             (("--machine", "llama-8b-h200", "--cost", "1,1,1,1"), "--machine"), (("--peer-link", "x"), "--peer-link x"),
                             (("--plot", "a.svg"), "--requests-per-day"), (("--plot", "a.png", "--requests-per-day", 9), "--plot a.png"),
                             (("--replica-cost", 3), "--replica-cost"), (("--each-replica",), "--each-replica"), (("--swing", 2), "--swing")):
            with self.subTest(words=words):
                self.assertIn(named, refused("bench", "sim", "--num-prompts", 2, *words))
        for words, named in ((("--tp-size", 2, "--link", "3"), "--link 3"), (("--link", "1,1"), "--tp-size"),
                             (("--tp-size", 2, "--cost", "1"), "--cost 1"), (("--tp-size", 0), "--tp-size")):
            with self.subTest(words=words):
                self.assertIn(named, refused("plan", MODEL, *words))


class Plans(unittest.TestCase):
    def test_a_link_of_the_speed_that_pays_makes_ranks_as_fast_as_one(self):
        def plan(*words):
            done = subprocess.run([BINARY, "plan", str(MODEL), "--json", "--cost", "0.01,0.001,0.002,0", "--tp-size", *words], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)["ranks"]
        steps = plan("2")["steps"]
        for i, step in enumerate(steps):
            found = plan("2", "--link", f"{step['pays_from_gb_per_s']!r},0")["steps"][i]
            self.assertAlmostEqual(found["ranks_ms"] / step["one_rank_ms"], 1, places=6)
            self.assertAlmostEqual(found["received_bytes"], found["gathered_bytes"] / 2)
        self.assertIsNone(plan("2", "--link", "100,1e6")["steps"][0]["pays_from_gb_per_s"])
        # Exact mode gathers floats, weights of bf16 on a device half of that where rows are only multiplied.
        on_device = [plan("2", "--device", "emu", "--activations", kind)["steps"][0]["gathered_bytes"] for kind in ("int8", "f32")]
        self.assertLess(on_device[0], on_device[1])
        self.assertEqual(plan("2", "--activations", "f32")["steps"][0]["gathered_bytes"], on_device[1])

    def test_what_a_step_takes_on_a_device_is_not_made_up(self):
        done = subprocess.run([BINARY, "plan", str(MODEL), "--tp-size", "2", "--device", "emu"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("gathers a step", done.stdout)
        self.assertIn("--cost", done.stdout)
        self.assertNotIn("pays from", done.stdout)
        self.assertIn("--cost", refused("plan", MODEL, "--tp-size", 2, "--device", "emu", "--link", "6,3", "--plot", "/tmp/none.svg"))


class Days(unittest.TestCase):
    def test_a_day_is_the_same_twice_and_a_row_for_each_setting(self):
        words = ("bench", "sim", "--requests-per-day", "2e5", "--each-replica", "--replicas", "2,5", "--router", "cache_aware,random", "--levels", 2,
                 "--jobs", 2, "--warm-up", 4, "--window", 4, "--machine", "llama-8b-h200", "--replica-cost", 2, "--json", "--remote-tier", "none",
                 "--remote-tier", "5,100")
        def run():
            return subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=300).stdout
        printed = run()
        self.assertEqual(printed, run())
        rows = [json.loads(line) for line in printed.splitlines()]
        self.assertEqual([(r["router"], r["replicas"]) for r in rows],
                         [(router + tier, n) for router in ("cache_aware", "random") for tier in ("", ", remote tier 5,100") for n in (2, 5)])
        for row in rows:
            self.assertEqual(row["day"]["failed"], 0)
            self.assertGreater(row["cost_per_million_output_tokens"], row["cost_per_million_tokens"])
            self.assertEqual(row["day"]["bytes_per_second"]["remote_written"] > 0, "tier" in row["router"])


    def test_a_session_that_stays_where_it_was_finds_what_was_said(self):
        def rows(*words):
            done = subprocess.run([BINARY, "bench", "sim", "--requests-per-day", "3e5", "--each-replica", "--levels", "1", "--warm-up", "4", "--window", "8",
                                   "--machine", "llama-8b-h200", "--json", *words], capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            return [json.loads(line)["day"]["cache_hit_rate_pct"] for line in done.stdout.splitlines()]
        manual, ring, turns = rows("--replicas", "6", "--router", "manual,consistent_hash,round_robin", "--assignment-mode", "min_load")
        self.assertAlmostEqual(manual, ring, delta=4)
        self.assertGreater(manual, turns + 10)
        self.assertGreater(rows("--replicas", "4", "--prefill-replicas", "3", "--router", "bucket", "--peer-link", "10,30")[0], 0)


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
