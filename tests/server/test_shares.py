"""Who gets the machine when many want it: deadlines of requests with several choices, turns between keys."""
import threading
import time
import unittest

from harness import Server

CHOICES = {"input_ids": [1], "sampling_params": {"temperature": 1, "n": 8, "max_new_tokens": 300, "ignore_eos": True}}


class Deadlines(unittest.TestCase):
    def test_choices_of_a_request_that_has_begun_are_all_computed(self):
        with Server("--max-running-requests", "1") as server:
            start = time.monotonic()
            server.post("/generate", CHOICES)
            deadline = max(1, round((time.monotonic() - start) * 500))  # half of what all of them take, one after another
            choices = server.generate(**CHOICES, deadline_ms=deadline)
            self.assertEqual([len(choice["output_ids"]) for choice in choices], [300] * 8)

    def test_requests_that_have_not_begun_are_refused(self):
        with Server("--max-running-requests", "1") as server:
            running = server.open_stream("/generate", {**CHOICES, "stream": True})
            running.recv(100)
            reply = server.post("/generate", {"input_ids": [1], "deadline_ms": 1})
            running.close()
            self.assertEqual((reply.status, reply.json["error"]["code"], reply.json["error"]["param"]), (408, "deadline", "deadline_ms"))


class Turns(unittest.TestCase):
    """One key sends twelve requests, then another sends two: in which order do they end?"""

    def order(self, *flags):
        with Server("--api-key", "many", "--api-key", "few", "--max-running-requests", "1", "--schedule-policy", "fcfs", *flags) as server:
            ended, lock, threads = [], threading.Lock(), []
            before = server.metric("espalier_engine_requests_total")

            def send(key, number):
                body = {"input_ids": [2 + number], "sampling_params": {"temperature": 1, "n": 8, "max_new_tokens": 400, "ignore_eos": True}}
                reply = server.post("/generate", body, headers={"Authorization": f"Bearer {key}"}, timeout=120)
                self.assertEqual(reply.status, 200, reply.body[:300])
                with lock:
                    ended.append(key)

            for key, count in (("many", 12), ("few", 2)):
                for number in range(count):
                    threads.append(threading.Thread(target=send, args=(key, number)))
                    threads[-1].start()
                while server.metric("espalier_engine_requests_total") - before < len(threads):  # until all of these are queued
                    time.sleep(0.001)
            for thread in threads:
                thread.join()
            return ended

    def test_keys_take_turns_when_the_server_is_fair(self):
        self.assertLess(max(i for i, key in enumerate(self.order("--fair-tenants")) if key == "few"), 10)

    def test_else_who_came_first_is_served_first(self):
        self.assertEqual(self.order()[-1], "few")


if __name__ == "__main__":
    unittest.main()
