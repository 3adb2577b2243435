"""Servers that share prefixes through a real Redis (--cache-remote): the same answers with it, without it, and with one that is killed,
frozen, full or lying in the middle."""
import subprocess
import tempfile
import threading
import unittest

from harness import BINARY, MODEL, Server, eventually
from redis_server import Redis, Relay, redis_program
from test_devices import EXACT, answers

LONG = {"temperature": 0, "max_new_tokens": 6, "ignore_eos": True}


def prompt(i, length=300):
    return [3 + (7 * i + j * (1 + i % 5)) % 300 for j in range(length)]


def wanted(count=8, length=300):
    return [{"input_ids": prompt(i, length - i), "sampling_params": LONG} for i in range(count)]


def sharing(port, *flags, **more):
    """Every token that is found is read: the model is so small that computing is quicker."""
    return Server(*EXACT, "--no-cache-disk", "--cache-remote-reads", "always", "--cache-remote", f"redis://127.0.0.1:{port}", *flags, **more)


def given(server, tokens):
    """Waits until others can find so many tokens of it."""
    names = ("espalier_remote_written_tokens_total", "espalier_remote_known_tokens_total")
    eventually(lambda: sum(server.metric(name) for name in names) >= tokens, True, 60)


@unittest.skipUnless(redis_program(), "there is no Redis server here (Debian: redis-tools)")
class RemoteCache(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Server(*EXACT, "--no-cache-disk") as server:
            cls.expected = answers(server, wanted())

    def fill(self, port, *flags):
        """A first server computes all, and gives it to others."""
        with sharing(port, *flags) as first:
            self.assertEqual(answers(first, wanted()), self.expected)
            given(first, 8 * 288)
            self.assertEqual(first.stop(), 0)

    def test_a_second_server_finds_what_the_first_one_computed(self):
        with Redis() as redis:
            self.fill(redis.port)
            with sharing(redis.port) as second:
                replies = [second.generate(**body) for body in wanted()]
                self.assertEqual(answers(second, wanted()), self.expected)
                for body, reply in zip(wanted(), replies):
                    whole = (len(body["input_ids"]) - 1) // 16 * 16
                    self.assertGreaterEqual(reply["meta_info"]["cached_tokens"], whole)
                self.assertGreater(second.metric("espalier_remote_read_tokens_total"), 8 * 256)
                self.assertEqual(second.metric("espalier_remote_state"), 1)
                self.assertEqual(second.get("/get_server_info").json["internal_states"][0]["remote_cache"]["state"], "up")

    def test_servers_that_run_at_the_same_time_share_as_they_go(self):
        with Redis() as redis, sharing(redis.port) as one, sharing(redis.port) as two:
            for _ in range(2):
                self.assertEqual(answers(one, wanted()), self.expected)
                given(one, 8 * 288)
                self.assertEqual(answers(two, wanted()), self.expected)
            self.assertGreater(two.metric("espalier_remote_hits_total"), 4)

    def test_an_emulated_device_shares_with_a_cpu_of_the_same_bits_or_computes(self):
        with Redis() as redis:
            self.fill(redis.port, "--device", "emu")
            with sharing(redis.port, "--device", "emu", "--cache-host", "32M") as second:
                self.assertEqual([answers(second, [body])[0] for body in wanted()], self.expected)
                self.assertGreater(second.metric("espalier_remote_read_tokens_total"), 8 * 256)
            with sharing(redis.port) as cpu:
                self.assertEqual(answers(cpu, wanted()), self.expected)

    def test_a_salt_keeps_tenants_apart_there_too(self):
        with Redis() as redis:
            body = {"input_ids": prompt(1), "sampling_params": LONG}
            with sharing(redis.port) as first:
                first.generate(**body, cache_salt="a")
                eventually(lambda: first.metric("espalier_remote_written_tokens_total") > 0, True, 60)
            for salt, found in (("b", 0), (None, 0), ("a", 288)):
                with sharing(redis.port) as second:
                    reply = second.generate(**body, **({"cache_salt": salt} if salt else {}))
                    self.assertEqual(reply["meta_info"]["cached_tokens"], found, salt)

    def test_flushing_the_cache_forgets_its_own_and_leaves_what_others_have(self):
        with Redis() as redis, sharing(redis.port) as server:
            body = {"input_ids": prompt(2), "sampling_params": LONG}
            server.generate(**body)
            given(server, 288)
            self.assertGreaterEqual(redis.keys(), 18)
            self.assertEqual(server.post("/flush_cache", {}).status, 200)
            self.assertGreaterEqual(redis.keys(), 18)
            self.assertEqual(server.generate(**body)["meta_info"]["cached_tokens"], 288)

    # --- trouble ---

    def under_trouble(self, port, trouble, end):
        """Requests go on while something happens to the store: all are answered, with the same tokens."""
        self.fill(port)
        with sharing(port, "--max-total-tokens", "1200", "--max-running-requests", "3") as server:
            failures = []

            def ask(turns):
                for _ in range(turns):
                    try:
                        if answers(server, wanted()) != self.expected:
                            failures.append("another answer")
                    except Exception as failure:
                        failures.append(repr(failure))

            threads = [threading.Thread(target=ask, args=(4,)) for _ in range(2)]
            for thread in threads:
                thread.start()
            eventually(lambda: server.metric("espalier_remote_asks_total") >= 3, True, 60)
            trouble()
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])
            seen = server.get("/metrics").body.decode()
            end()
            ask(1)
            self.assertEqual(failures, [])
            return seen, server.text()

    def test_a_store_that_is_killed_costs_no_request(self):
        with Redis() as redis:
            seen, log = self.under_trouble(redis.port, redis.kill, redis.start)
            self.assertIn("is not used until it answers again", log)
            self.assertLessEqual(log.count("is not used until"), 1 + log.count(" answers\n") + log.count("answers again\n"), "a line for a change")

    def test_a_store_that_sleeps_costs_no_request(self):
        with Redis() as redis:
            self.under_trouble(redis.port, redis.freeze, redis.go_on)

    def test_a_store_that_is_full_is_still_read(self):
        with Redis() as redis:
            redis.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
            self.fill(redis.port)
            redis.ask("CONFIG", "SET", "maxmemory", "1")
            with sharing(redis.port) as server:
                self.assertEqual(answers(server, wanted()), self.expected)
                self.assertGreater(server.metric("espalier_remote_read_tokens_total"), 8 * 256)
                server.generate(input_ids=prompt(77), sampling_params=LONG)
                eventually(lambda: server.metric("espalier_remote_state"), 2)
                self.assertIn("takes no prefixes for now: OOM", server.text())

    def test_a_store_that_lies_is_found_out(self):
        with Redis() as redis, Relay(redis.port) as relay:
            def lie():
                relay.change = 5000
            self.under_trouble(relay.port, lie, lambda: setattr(relay, "change", None))

    def test_every_block_changed_is_every_block_computed(self):
        with Redis() as redis, Relay(redis.port) as relay:
            self.fill(redis.port)
            relay.change = 1 << 20
            with sharing(relay.port) as server:
                self.assertEqual(answers(server, wanted()), self.expected)
                self.assertGreater(server.metric("espalier_remote_damaged_blocks_total"), 0)
                self.assertEqual(server.metric("espalier_remote_read_tokens_total"), 0)

    def test_a_connection_that_is_cut_costs_no_request(self):
        with Redis() as redis, Relay(redis.port) as relay:
            self.under_trouble(relay.port, lambda: setattr(relay, "cut", 50_000), lambda: setattr(relay, "cut", None))

    def test_a_slow_store_costs_no_request(self):
        with Redis() as redis, Relay(redis.port) as relay:
            self.under_trouble(relay.port, lambda: setattr(relay, "delay", 0.2), lambda: setattr(relay, "delay", 0))

    def test_a_store_that_lets_nobody_in_is_told_once(self):
        with Redis("--requirepass", "opensesame") as redis:
            with sharing(redis.port) as server:
                self.assertEqual(answers(server, wanted()), self.expected)
                eventually(lambda: "does not let us in" in server.text(), True)

    # --- flags ---

    def test_a_password_is_told_to_nobody(self):
        with Redis("--requirepass", "opensesame") as redis, tempfile.NamedTemporaryFile("w") as file:
            file.write("opensesame\n")
            file.flush()
            with sharing(redis.port, "--cache-remote-password-file", file.name) as server:
                server.generate(input_ids=prompt(1), sampling_params=LONG)
                eventually(lambda: server.metric("espalier_remote_written_tokens_total") > 0, True, 60)
            url = f"redis://:opensesame@127.0.0.1:{redis.port}"
            with Server(*EXACT, env={"ESPALIER_CACHE_REMOTE": url}) as server:
                eventually(lambda: server.metric("espalier_remote_state"), 1)
                info = server.get("/get_server_info").body.decode()
                self.assertIn(f"redis://127.0.0.1:{redis.port}", info)
                for text in (info, server.text(), server.get("/metrics").body.decode()):
                    self.assertNotIn("opensesame", text)
            shown = subprocess.run([BINARY, "serve", str(MODEL), "--print-config", "--cache-remote", url], capture_output=True, text=True)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertNotIn("opensesame", shown.stdout + shown.stderr)

    def test_what_cannot_be_is_refused_at_the_start(self):
        for flags, said in ((("--cache-remote", "rediss://host"), "stunnel"), (("--cache-remote", "host:1"), "redis://"),
                            (("--cache-remote-policy", "never"), "write_through_selective"), (("--cache-remote-ttl", "-1"), "0 to"),
                            (("--cache-remote", "redis://h", "--cache-remote-password-file", "/nowhere"), "/nowhere")):
            refused = subprocess.run([BINARY, "serve", str(MODEL), "--port", "0", *flags], capture_output=True, text=True, timeout=60)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn(said, refused.stderr)

    def test_sglangs_words_are_understood(self):
        with Redis() as redis, Server(*EXACT, "--cache-remote", f"redis://127.0.0.1:{redis.port}", "--hicache-write-policy", "write_back",
                                      "--hicache-storage-prefetch-policy", "wait_complete") as server:
            self.assertEqual(server.get("/get_server_info").json["cache_remote_policy"], "write_back")


if __name__ == "__main__":
    unittest.main()
