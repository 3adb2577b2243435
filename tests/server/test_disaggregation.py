"""Prompts that one server computes and another one's outputs (--disaggregation-mode), and prefixes out of another's memory (--peers): the
answers are those of one server, whatever does not come."""
import json
import tempfile
import threading
import time
import unittest

from harness import MODEL, Server, eventually, in_parallel
from picture_checks import data_url
from prefill_decode import FLAGS, Pair, decode, events, free_port, handed, metrics, prefill, whole_blocks
from redis_server import Relay
from test_devices import SCHEMA, answers, told

LONG = {"temperature": 0, "max_new_tokens": 6, "ignore_eos": True}


def prompt(i, length=300):
    return [3 + (7 * i + j * (1 + i % 5)) % 300 for j in range(length)]


def wanted(count=8, length=300):
    return [{"input_ids": prompt(i, length - i), "sampling_params": LONG} for i in range(count)]


class PrefillAndDecode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.alone = Server(*FLAGS)
        cls.addClassCleanup(cls.alone.kill)
        cls.expected = answers(cls.alone, wanted())

    def same(self, pair, bodies):
        self.assertEqual(answers(pair, bodies), answers(self.alone, bodies))

    def test_the_second_server_computes_no_whole_block_of_a_prompt(self):
        with prefill() as first, decode() as second:
            pair = Pair(first, second)
            for body, expected in zip(wanted(), self.expected):
                reply = pair.generate(**body)
                self.assertEqual([told(reply)], expected)
                self.assertEqual(reply["meta_info"]["cached_tokens"], whole_blocks(len(body["input_ids"])))
                self.assertEqual(pair.prompt_reply.json["meta_info"]["completion_tokens"], 1)
            pulled, failed = metrics(second, "pulled_tokens_total", "rooms_failed_total")
            self.assertEqual((pulled, failed), (sum(whole_blocks(len(b["input_ids"])) for b in wanted()), 0))
            given, = metrics(first, "given_tokens_total")
            self.assertEqual(given, pulled)

    def test_answers_at_once_are_those_of_one_server(self):
        with prefill("--chunked-prefill-size", "48") as first, decode("--max-running-requests", "5") as second:
            pair = Pair(first, second)
            self.assertEqual(answers(pair, wanted()), self.expected)
            self.assertEqual(answers(pair, wanted()), self.expected)  # from its own cache now
            rooms, unneeded, failed = metrics(second, "rooms_total", "rooms_unneeded_total", "rooms_failed_total")
            self.assertEqual((rooms, unneeded, failed), (8, 8, 0))

    def test_blocks_come_while_the_prompt_is_still_computed(self):
        """The first server computes one block a step, and others' blocks have come when its own answer is not there yet."""
        with prefill("--chunked-prefill-size", "16") as first, decode() as second:
            body = handed({"input_ids": prompt(1, 1500), "sampling_params": LONG}, first.bootstrap)
            reply = []
            threads = [threading.Thread(target=lambda: first.post("/generate", body)),
                       threading.Thread(target=lambda: reply.append(second.post("/generate", body)))]
            for thread in threads:
                thread.start()
            before = False
            while threads[0].is_alive() and not before:
                before = (metrics(second, "pulled_tokens_total")[0] or 0) > 0
            for thread in threads:
                thread.join()
            self.assertTrue(before, "nothing came before the prompt was complete")
            self.assertEqual(reply[0].json["output_ids"], self.alone.generate(input_ids=prompt(1, 1500), sampling_params=LONG)["output_ids"])

    def test_every_way_of_asking_is_answered_as_by_one_server(self):
        bodies = [
            {"input_ids": prompt(1), "sampling_params": {"temperature": 0.9, "sampling_seed": 5, "n": 2, "max_new_tokens": 8}},
            {"input_ids": prompt(2), "return_logprob": True, "top_logprobs_num": 2, "sampling_params": LONG},
            {"text": "a person: " + "word " * 60, "sampling_params": {"temperature": 0, "max_new_tokens": 24, "json_schema": json.dumps(SCHEMA)}},
            {"input_ids": prompt(3), "sampling_params": {"temperature": 0, "max_new_tokens": 0}},
            {"input_ids": prompt(4, 9), "sampling_params": LONG},
            {"input_ids": prompt(5), "cache_salt": "mine", "sampling_params": {"temperature": 0, "max_new_tokens": 20, "stop_token_ids": list(range(0, 300, 7))}},
        ]
        with prefill() as first, decode() as second:
            self.same(Pair(first, second), bodies)
            self.assertEqual(metrics(second, "rooms_failed_total"), [0])

    def test_log_probabilities_of_a_prompt_are_told_by_who_computed_it(self):
        """sglang-router puts the first server's in front of the second's."""
        body = {"input_ids": prompt(6, 100), "return_logprob": True, "logprob_start_len": 0, "sampling_params": LONG}
        with prefill() as first, decode() as second:
            pair = Pair(first, second)
            reply = pair.generate(**body)
            alone = self.alone.generate(**body)["meta_info"]
            self.assertEqual(reply["meta_info"]["input_token_logprobs"], [])
            self.assertEqual(pair.prompt_reply.json["meta_info"]["input_token_logprobs"], alone["input_token_logprobs"])
            self.assertEqual(reply["meta_info"]["output_token_logprobs"], alone["output_token_logprobs"])

    def test_batches_streams_and_chats_are_handed_on(self):
        with prefill() as first, decode() as second:
            pair = Pair(first, second)
            batch = {"input_ids": [prompt(i, 200) for i in range(3)], "sampling_params": LONG}
            reply = pair.post("/generate", batch, count=3)
            self.assertEqual([told(each) for each in reply.json], [told(each) for each in self.alone.generate(**batch)])
            stream = {"input_ids": prompt(9), "sampling_params": LONG, "stream": True}
            self.assertEqual(events(pair.post("/generate", stream))[-1]["output_ids"], events(self.alone.post("/generate", stream))[-1]["output_ids"])
            completion = {"prompt": ["one " * 50, "two " * 50], "max_tokens": 6, "temperature": 0}
            texts = [[c["text"] for c in server.json["choices"]]
                     for server in (pair.post("/v1/completions", completion, count=2), self.alone.post("/v1/completions", completion))]
            self.assertEqual(*texts)
            self.assertEqual(metrics(second, "rooms_failed_total"), [0])
            self.assertEqual(metrics(second, "rooms_total"), [6])

    def test_ranks_and_an_emulated_device_hand_on_what_they_compute(self):
        for first_flags, second_flags in ((("--tp-size", "2"), ()), ((), ("--tp-size", "2")), (("--device", "emu"), ("--device", "emu"))):
            with prefill(*first_flags) as first, decode(*second_flags) as second:
                self.assertEqual(answers(Pair(first, second), wanted(4)), self.expected[:4], (first_flags, second_flags))
                self.assertEqual(metrics(second, "rooms_failed_total"), [0], second.text()[-500:])

    def test_pictures_are_seen_by_who_computes_the_prompt(self):
        folder = MODEL.parent / "mm-gemma3"
        case = next(case for case in json.loads((folder / "golden.json").read_text())["cases"] if case["images"])
        body = {"input_ids": case["tokens_one_placeholder_per_image"], "image_data": [data_url(folder / name) for name in case["images"]],
                "sampling_params": LONG}
        with Server("--activations", "f32", model=folder) as alone:
            expected = answers(alone, [body])
        with prefill(context=False, model=folder) as first, decode(context=False, model=folder) as second:
            self.assertEqual(answers(Pair(first, second), [body]), expected)
            seen = [server.metric("espalier_tower_pictures_total") for server in (first, second)]
            self.assertEqual(seen, [len(case["images"]), 0])
            self.assertEqual(metrics(second, "rooms_failed_total"), [0])

    def test_their_place_is_told(self):
        with prefill() as first, decode() as second:
            for server, mode in ((first, "prefill"), (second, "decode")):
                self.assertEqual(server.get("/get_server_info").json["disaggregation_mode"], mode)
                self.assertEqual(server.get("/get_model_info").json["disaggregation_mode"], mode)

    def test_an_address_may_stand_in_brackets(self):
        """As sglang-router sends it."""
        with prefill() as first, decode() as second:
            body = handed(wanted()[0], first.bootstrap, host="[127.0.0.1]")
            first.post("/generate", body)
            self.assertEqual([told(second.post("/generate", body).json)], self.expected[0])
            self.assertEqual(metrics(second, "pulled_tokens_total", "rooms_failed_total"), [whole_blocks(300), 0])

    def test_small_batches_and_chunks_compute_the_same_keys(self):
        with prefill() as first, decode("--chunked-prefill-size", "16", "--max-running-requests", "1") as second:
            self.assertEqual(answers(Pair(first, second), wanted(2)), self.expected[:2])
            self.assertEqual(metrics(second, "rooms_failed_total"), [0])

    def test_who_only_waits_for_prompts_is_healthy(self):
        with prefill() as first, decode("--watchdog-timeout", "1") as second:
            waiting = threading.Thread(target=lambda: second.post("/generate", handed(wanted()[0], first.bootstrap)))
            waiting.start()
            seen = set()
            while waiting.is_alive():
                seen.add(second.get("/health").status)
                time.sleep(0.2)
            self.assertEqual(seen, {200})
            self.assertNotIn("no step came to its end", second.text())

    # --- trouble ---

    def test_a_first_server_that_is_not_there_costs_only_its_work(self):
        with decode() as second:
            for host, port in (("127.0.0.1", free_port()), ("no-such-host.invalid", 8998)):
                replies = in_parallel(4, lambda i: second.post("/generate", handed(wanted()[i], port, host=host)))
                self.assertEqual([[told(r.json)] for r in replies], self.expected[:4])
                self.assertEqual(second.post("/flush_cache", {}).status, 200)
            self.assertIn("is computed here", second.text())

    def test_an_address_of_the_internet_is_not_connected_to_without_a_secret(self):
        with decode() as second:
            start = time.monotonic()
            reply = second.post("/generate", handed(wanted()[0], 8998, host="192.0.2.7"))
            self.assertEqual([told(reply.json)], self.expected[0])
            self.assertIn("its address is not allowed", second.text())

    def test_a_request_that_the_first_server_never_sees_is_computed(self):
        with prefill() as first, decode("--disaggregation-timeout", "1") as second:
            reply = second.post("/generate", handed(wanted()[0], first.bootstrap))
            self.assertEqual([told(reply.json)], self.expected[0])
            self.assertEqual(metrics(second, "rooms_failed_total", "pulled_tokens_total"), [1, 0])

    def test_servers_that_compute_otherwise_or_know_another_secret_share_nothing(self):
        with tempfile.NamedTemporaryFile("w") as secret:
            secret.write("of the fleet\n")
            secret.flush()
            for flags, sentence in ((("--activations", "int8"), "computes other keys and values"),
                                    (("--cache-remote-secret-file", secret.name), "its secret is another")):
                with prefill(*flags) as first, decode() as second:
                    pair = Pair(first, second)
                    self.assertEqual(answers(pair, wanted(3)), self.expected[:3])
                    self.assertEqual(metrics(second, "pulled_tokens_total"), [0])
                    self.assertIn(sentence, second.text())
            with prefill("--cache-remote-secret-file", secret.name) as first, decode("--cache-remote-secret-file", secret.name) as second:
                self.assertEqual(answers(Pair(first, second), wanted(3)), self.expected[:3])
                self.assertEqual(metrics(second, "rooms_failed_total"), [0])

    def through_relay(self, trouble, *flags):
        """Requests at once, their blocks through a relay that is made bad; what the second server said."""
        with prefill() as first, Relay(first.bootstrap) as relay, decode(*flags) as second:
            trouble(relay)
            pair = Pair(first, second, bootstrap=relay.port)
            self.assertEqual(answers(pair, wanted()), self.expected)
            self.assertEqual(second.post("/flush_cache", {}).status, 200)
            relay.delay, relay.cut, relay.change, relay.hold = 0, None, None, False
            self.assertEqual(answers(pair, wanted()), self.expected)
            return second.text()

    def test_a_connection_that_breaks_in_the_middle_loses_no_request(self):
        def cut(relay):
            relay.cut = 60_000
        self.assertIn("is computed here", self.through_relay(cut))

    def test_changed_bytes_are_never_used(self):
        def change(relay):
            relay.change = 5000
        self.assertIn("is computed here", self.through_relay(change))

    def test_a_link_that_stalls_is_given_up(self):
        def hold(relay):
            relay.hold = True
        self.assertIn("it does not answer in time", self.through_relay(hold, "--disaggregation-timeout", "2"))

    def test_a_first_server_that_is_killed_in_the_middle_loses_no_request(self):
        with decode() as second:
            bodies = [{"input_ids": prompt(i, 900), "sampling_params": LONG} for i in range(6)]
            expected = answers(self.alone, bodies)
            first = prefill("--chunked-prefill-size", "16")
            try:
                pair, replies = Pair(first, second), []
                asking = threading.Thread(target=lambda: replies.extend(answers(pair, bodies)))
                asking.start()
                eventually(lambda: (metrics(second, "pulled_tokens_total")[0] or 0) > 0, True, 60)
                first.process.kill()
                asking.join()
            finally:
                first.kill()
            self.assertEqual(replies, expected)
            self.assertGreater(metrics(second, "rooms_failed_total")[0], 0)

    def test_clients_that_leave_while_their_prompts_are_computed_disturb_nobody(self):
        with prefill("--chunked-prefill-size", "16") as first, decode() as second:
            pair = Pair(first, second)
            for i in range(4):
                body = handed({"input_ids": prompt(i, 1200), "sampling_params": LONG, "stream": True}, first.bootstrap)
                for server in (first, second) if i % 2 else (second,):
                    server.open_stream("/generate", body).close()
            self.assertEqual(answers(pair, wanted()), self.expected)
            eventually(lambda: second.get("/get_load").json[0]["num_reqs"], 0, 60)
            self.assertEqual(second.post("/flush_cache", {}).status, 200)

    def test_small_pools_hand_on_what_fits(self):
        with prefill("--max-total-tokens", "1000") as first, decode("--max-total-tokens", "700", "--max-running-requests", "3") as second:
            pair = Pair(first, second)
            for _ in range(3):
                self.assertEqual(answers(pair, wanted()), self.expected)

    def test_wrong_types_of_what_a_router_says_are_refused(self):
        wrong = {"bootstrap_room": ("7", 1.5, True, {}, -1, 1 << 64, ["7"], [[1]], [], [1, 2]),
                 "bootstrap_port": ("8998", 1.5, False, 65536, -1, ["8998"], [1, 2]),
                 "bootstrap_host": (7, True, {}, [7], ["127.0.0.1", "127.0.0.1"])}
        one = ("/generate", {"input_ids": prompt(1), "sampling_params": LONG})
        routes = (one, ("/v1/completions", {"prompt": prompt(1), "max_tokens": 2}),
                  ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2}))
        for mode in (prefill, decode):
            with mode() as server:
                port = getattr(server, "bootstrap", 8998)
                for path, body in routes:
                    for name, values in wrong.items():
                        for value in values:
                            with self.subTest(path=path, mode=mode.__name__, name=name, value=value):
                                reply = server.post(path, {**handed(body, port), name: value})
                                self.assertEqual(reply.status, 400, reply.body)
                                self.assertIn(name, reply.body.decode())
                two = {"input_ids": [prompt(1), prompt(2)], "sampling_params": LONG}
                for name, value in (("bootstrap_room", [1]), ("bootstrap_room", [1, 2, 3]), ("bootstrap_room", [1, "2"]),
                                    ("bootstrap_port", [port, "8998"]), ("bootstrap_host", ["127.0.0.1", 7])):
                    with self.subTest(mode=mode.__name__, name=name, value=value):
                        reply = server.post("/generate", {**handed(two, port, 2), name: value})
                        self.assertEqual(reply.status, 400, reply.body)
                        self.assertIn(name, reply.body.decode())
        with Server(*FLAGS) as server:  # without a mode nothing looks at them
            self.assertEqual(server.post(one[0], {**one[1], "bootstrap_room": "7", "bootstrap_port": {}}).status, 200)

    def test_what_a_router_says_of_several_answers_is_taken(self):
        """One room for each answer of a chat, as sglang-router sends them, and null for what is not said."""
        with prefill() as first, decode() as second:
            chat = {"messages": [{"role": "user", "content": "a" * 90}], "max_tokens": 4, "n": 3, "temperature": 0}
            expected = [choice["message"] for choice in self.alone.post("/v1/chat/completions", chat).json["choices"]]
            reply = Pair(first, second).post("/v1/chat/completions", chat, 3)
            self.assertEqual([choice["message"] for choice in reply.json["choices"]], expected)
            self.assertGreater(metrics(second, "pulled_tokens_total")[0], 0)
            nothing = {**wanted()[0], "bootstrap_host": None, "bootstrap_port": None, "bootstrap_room": None}
            self.assertEqual([told(second.post("/generate", nothing).json)], self.expected[0])

    def test_flags_of_a_mode_without_one_are_told(self):
        with Server(*FLAGS, "--disaggregation-bootstrap-port", "8999", "--disaggregation-timeout", "7") as server:
            self.assertRegex(server.text(), "without effect without --disaggregation-mode prefill or decode: "
                             "--disaggregation-bootstrap-port, --disaggregation-timeout")
        with decode("--disaggregation-timeout", "7") as server:
            self.assertNotIn("without effect", server.text())

    def test_a_model_that_generates_no_text_hands_nothing_on(self):
        for mode in ("prefill", "decode"):
            for model in (MODEL.parent / "emb-text-minilm", MODEL):
                server = Server("--is-embedding", "--disaggregation-mode", mode, "--disaggregation-bootstrap-port", str(free_port()),
                                model=model, wait=False)
                self.assertEqual(server.process.wait(60), 2, server.text())
                self.assertRegex(server.text(), f"--disaggregation-mode {mode}: .* generates no text here")
                server.kill()

    def test_a_mode_that_there_is_not_is_refused(self):
        server = Server("--disaggregation-mode", "both", wait=False)
        self.assertEqual(server.process.wait(60), 2)
        self.assertIn("may be null, prefill or decode", server.text())
        server.kill()

    def test_several_models_cannot_be_asked_for_at_one_port(self):
        for flags in (("--disaggregation-mode", "prefill"), ("--peer-port", "8999")):
            server = Server(*flags, "--model", str(MODEL), "--model", str(MODEL.parent / "mm-gemma3"), wait=False)
            self.assertEqual(server.process.wait(60), 2)
            self.assertIn("serve one model", server.text())
            server.kill()

    def test_a_port_that_is_in_use_is_named(self):
        with prefill() as first:
            other = Server("--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", str(first.bootstrap), wait=False)
            self.assertNotEqual(other.process.wait(60), 0)
            self.assertIn("--disaggregation-bootstrap-port", other.text())
            other.kill()


class Peers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Server(*FLAGS) as server:
            cls.expected = answers(server, wanted())

    def asking(self, *ports, **more):
        peers = ",".join(f"127.0.0.1:{port}" for port in ports)
        return Server(*FLAGS, "--cache-remote-reads", "always", "--peers", peers, **more)

    def test_prefixes_come_out_of_anothers_memory(self):
        port = free_port()
        with Server(*FLAGS, "--peer-port", str(port)) as one, self.asking(port) as two:
            self.assertEqual(answers(one, wanted()), self.expected)
            replies = [two.generate(**body) for body in wanted()]
            self.assertEqual([[told(reply)] for reply in replies], self.expected)
            for body, reply in zip(wanted(), replies):
                self.assertEqual(reply["meta_info"]["cached_tokens"], whole_blocks(len(body["input_ids"])))
            self.assertGreater(metrics(one, "given_tokens_total")[0], 8 * 256)

    def test_who_has_most_of_it_is_asked_and_who_is_gone_is_left_alone(self):
        ports = [free_port() for _ in range(3)]
        with Server(*FLAGS, "--peer-port", str(ports[0])) as one, Server(*FLAGS, "--peer-port", str(ports[1])) as two, \
                self.asking(*ports) as three:
            one.generate(input_ids=prompt(1)[:100], sampling_params=LONG)
            two.generate(input_ids=prompt(1), sampling_params=LONG)
            reply = three.generate(input_ids=prompt(1), sampling_params=LONG)
            self.assertEqual(reply["meta_info"]["cached_tokens"], 288)
            two.process.kill()
            self.assertEqual(answers(three, wanted()), self.expected)
            one.generate(input_ids=prompt(2), sampling_params=LONG)
            self.assertEqual(answers(three, wanted()), self.expected)

    def test_who_comes_back_is_asked_again(self):
        port = free_port()
        with self.asking(port) as two:
            two.generate(**wanted()[0])  # nobody is there
            with Server(*FLAGS, "--peer-port", str(port)) as one:
                for i in range(1, 60):
                    body = {"input_ids": prompt(i, 200), "sampling_params": LONG}
                    one.generate(**body)
                    if two.generate(**body)["meta_info"]["cached_tokens"] == whole_blocks(200):
                        break
                    time.sleep(0.2)
                self.assertGreater(two.metric("espalier_remote_read_tokens_total"), 0)
                self.assertIn("answers", two.text())

    def test_a_salt_keeps_tenants_apart(self):
        port = free_port()
        with Server(*FLAGS, "--peer-port", str(port)) as one, self.asking(port) as two:
            one.generate(**wanted()[0], cache_salt="a")
            self.assertEqual(two.generate(**wanted()[0])["meta_info"]["cached_tokens"], 0)
            self.assertEqual(two.generate(**wanted()[0], cache_salt="b")["meta_info"]["cached_tokens"], 0)
            self.assertEqual(two.generate(**wanted()[0], cache_salt="a")["meta_info"]["cached_tokens"], 288)

    def test_both_ask_each_other(self):
        ports = [free_port(), free_port()]
        flags = ("--cache-remote-reads", "always")
        with Server(*FLAGS, *flags, "--peer-port", str(ports[0]), "--peers", f"127.0.0.1:{ports[1]}") as one, \
                Server(*FLAGS, *flags, "--peer-port", str(ports[1]), "--peers", f"127.0.0.1:{ports[0]}") as two:
            replies = in_parallel(2, lambda i: answers((one, two)[i], wanted() if i else wanted()[::-1]))
            self.assertEqual(replies, [self.expected[::-1], self.expected])

    def test_addresses_that_are_none_are_refused(self):
        server = Server("--peers", "somewhere", wait=False)
        self.assertEqual(server.process.wait(60), 2)
        self.assertIn("HOST:PORT", server.text())
        server.kill()


if __name__ == "__main__":
    unittest.main()
