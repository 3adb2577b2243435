"""Cache events over ZeroMQ, read as routers read them: with msgspec, by the types that vLLM and SGLang publish."""
import pathlib
import tempfile
import time
import unittest

from cache_event_reader import BLOCK, Subscriber, config, free_port, msgspec, zmq
from harness import Server
from test_lora import some_adapter


@unittest.skipIf(msgspec is None, "msgspec and pyzmq are not installed")
class CacheEvents(unittest.TestCase):
    def ask(self, server, tokens, **more):
        reply = server.generate(input_ids=tokens, sampling_params={"max_new_tokens": 4, "temperature": 0, "ignore_eos": True}, **more)
        return tokens + reply["output_ids"]

    def test_routers_are_told_what_the_cache_holds(self):
        port, replay = free_port(), free_port()
        with Server("--kv-events-config", config(port, replay)) as server:
            subscriber = Subscriber(port, "kv@me@toy")
            time.sleep(0.5)  # a subscription takes a while to arrive
            first = self.ask(server, [(7 * i) % 90 + 10 for i in range(50)])
            self.ask(server, first + [33] * 20)
            subscriber.read()
            held = set(subscriber.held["CPU"])
            self.assertEqual(len(held), (len(first) + 20 + 4 - 1) // BLOCK)
            self.assertEqual(sorted(t for b in held for t in subscriber.tokens[b])[:3], sorted(first + [33] * 20)[:3])
            self.ask(server, first, cache_salt="another")  # is another prefix
            subscriber.read()
            self.assertEqual(len(subscriber.held["CPU"]), len(held) + (len(first) + 3) // BLOCK)
            self.assertEqual(server.post("/flush_cache", {}).status, 200)
            subscriber.read()
            self.assertFalse(any(subscriber.held.values()))
            self.assertEqual(subscriber.numbers, list(range(len(subscriber.numbers))))
            numbers = subscriber.numbers
            asks = zmq.Context.instance().socket(zmq.REQ)
            asks.connect(f"tcp://127.0.0.1:{replay}")
            asks.send((1).to_bytes(8, "big"))
            number, batch = asks.recv_multipart()  # a REQ socket reads one answer: the first
            self.assertEqual(int.from_bytes(number, "big"), 1)
            subscriber.decoder.decode(batch)
            asks.close(0)
            dealer = zmq.Context.instance().socket(zmq.DEALER)
            dealer.connect(f"tcp://127.0.0.1:{replay}")
            dealer.send_multipart([b"broken"])
            dealer.send_multipart([b"", (0).to_bytes(8, "big")])
            replayed = []
            while True:
                self.assertTrue(dealer.poll(5000))
                empty, number, batch = dealer.recv_multipart()
                if int.from_bytes(number, "big", signed=True) == -1:
                    self.assertEqual(batch, b"")
                    break
                replayed.append(int.from_bytes(number, "big"))
            self.assertEqual(replayed, numbers)
            dealer.close(0)
            subscriber.close()

    def test_an_adapters_blocks_bear_its_name(self):
        port, tokens = free_port(), [(5 * i) % 90 + 10 for i in range(40)]
        with tempfile.TemporaryDirectory() as folder:
            adapter = some_adapter(pathlib.Path(folder) / "mine", 1)
            with Server("--kv-events-config", config(port, topic=""), f"--lora-paths=mine={adapter}") as server:
                subscriber = Subscriber(port)
                time.sleep(0.5)
                self.ask(server, tokens, lora_path="mine", cache_salt="salted")
                subscriber.read()
                self.assertEqual(set(subscriber.adapters), {"mine"})
                held = len(subscriber.held["CPU"])
                self.ask(server, tokens, cache_salt="salted")
                subscriber.read()
                self.assertEqual(set(subscriber.adapters), {"mine", None})
                self.assertEqual(len(subscriber.held["CPU"]), 2 * held)
                subscriber.close()

    def test_what_memory_lets_go_of_is_told_with_where_it_went(self):
        port = free_port()
        with tempfile.TemporaryDirectory() as folder:
            flags = ("--max-total-tokens", "256", "--cache-dir", folder, "--cache-disk", "64",
                     "--kv-events-config", config(port, topic=""))
            with Server(*flags) as server:
                subscriber = Subscriber(port)
                time.sleep(0.5)
                for i in range(8):
                    self.ask(server, [(i + 3 * j) % 90 + 10 for j in range(120)])
                subscriber.read()
                self.assertLessEqual(len(subscriber.held["CPU"]), 256 // BLOCK)
                self.assertGreater(len(subscriber.held["CPU"]), 0)
                subscriber.close()

    def test_events_may_be_maps(self):
        port = free_port()
        with Server("--kv-events-config", config(port, encoding="map", topic="")) as server:
            subscriber = zmq.Context.instance().socket(zmq.SUB)
            subscriber.connect(f"tcp://127.0.0.1:{port}")
            subscriber.setsockopt_string(zmq.SUBSCRIBE, "")
            time.sleep(0.5)
            self.ask(server, list(range(10, 60)))
            self.assertTrue(subscriber.poll(5000))
            batch = msgspec.msgpack.decode(subscriber.recv_multipart()[2])
            self.assertEqual(batch["events"][0]["type"], "BlockStored")
            self.assertEqual(batch["events"][0]["medium"], "CPU")
            subscriber.close(0)

    def test_a_config_that_cannot_work_stops_the_start(self):
        for bad, word in (("[]", "JSON object"), ('{"publisher":"kafka"}', "publisher"), ('{"endpont":""}', "endpont"),
                          ('{"endpoint":"none://*:1"}', "none://*:1"), ('{"buffer_steps":0}', "buffer_steps")):
            server = Server("--kv-events-config", bad, wait=False)
            self.assertNotEqual(server.process.wait(20), 0)
            self.assertIn(word, server.text())
            server.kill()
        with Server("--kv-events-config", '{"publisher":"null"}') as server:
            self.assertEqual(server.get("/health").status, 200)


if __name__ == "__main__":
    unittest.main()
