"""Sessions (a client sends only what is new) and pins (a prefix that stays in memory), over real sockets."""
import threading
import unittest

from harness import Server, ServerCase

GREEDY = {"temperature": 0, "max_new_tokens": 5, "ignore_eos": True}


class Sessions(ServerCase):
    def open(self, **fields):
        reply = self.server.post("/open_session", {"capacity_of_str_len": 1000, **fields})
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json

    def turn(self, session, ids, rid=None, **more):
        params = {"id": session, **({"rid": rid} if rid else {}), **more}
        reply = self.server.post("/generate", {"input_ids": ids, "sampling_params": GREEDY, "session_params": params})
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json

    def whole(self, ids):
        return self.server.generate(input_ids=ids, sampling_params=GREEDY)["output_ids"]

    def refused(self, body, status, field):
        reply = self.server.post("/generate", {"input_ids": [1], "sampling_params": GREEDY, **body})
        self.assertEqual((reply.status, reply.json["error"]["param"]), (status, field), reply.body)

    def test_turns_go_on_from_each_other_and_branch(self):
        session = self.open()
        first = self.turn(session, [5, 6, 7, 8])
        self.assertEqual(first["output_ids"], self.whole([5, 6, 7, 8]))
        rid = first["meta_info"]["id"]
        past = [5, 6, 7, 8] + first["output_ids"]
        second = self.turn(session, [9, 10], rid)
        self.assertEqual(second["output_ids"], self.whole(past + [9, 10]))
        self.assertEqual(second["meta_info"]["prompt_tokens"], len(past) + 2)
        self.assertGreaterEqual(second["meta_info"]["cached_tokens"], len(past) - 1)
        other = self.turn(session, [11], rid)
        self.assertEqual(other["output_ids"], self.whole(past + [11]))
        for offset in (3, -2, 100, -100):
            self.assertEqual(self.turn(session, [12], rid, offset=offset)["output_ids"], self.whole(past[:offset] + [12]), offset)
        dropped = self.turn(session, [13], rid, drop_previous_output=True)
        self.assertEqual(dropped["output_ids"], self.whole([5, 6, 7, 8, 13]))

    def test_replacing_forgets_what_came_after(self):
        session = self.open()
        first = self.turn(session, [5, 6])["meta_info"]["id"]
        second = self.turn(session, [7], first)["meta_info"]["id"]
        third = self.turn(session, [8], second)["meta_info"]["id"]
        self.turn(session, [9], first, replace=True)
        for gone in (second, third):
            self.refused({"session_params": {"id": session, "rid": gone}}, 400, "session_params.rid")
        self.turn(session, [9], first)
        self.turn(session, [1], replace=True)
        self.refused({"session_params": {"id": session, "rid": first}}, 400, "session_params.rid")

    def test_a_running_turn_is_waited_for_or_replaced(self):
        session = self.open()
        for _ in range(50):  # the model is tiny: the turn may be over before the next one comes
            raw = self.server.open_stream("/generate", {"input_ids": [1], "rid": "turn", "stream": True, "session_params": {"id": session},
                                                        "sampling_params": {**GREEDY, "max_new_tokens": 500}})
            raw.recv(100)
            body = {"input_ids": [2], "sampling_params": GREEDY, "session_params": {"id": session, "rid": "turn"}}
            waiting = self.server.post("/generate", body)
            body["session_params"]["replace"] = True
            self.assertEqual(self.server.post("/generate", body).status, 200)
            data = b""
            while b"[DONE]" not in data and (piece := raw.recv(65536)):
                data += piece
            raw.close()
            self.turn(session, [1], replace=True)
            if waiting.status == 400:
                self.assertEqual(waiting.json["error"]["param"], "session_params.rid")
                self.assertIn("has not finished", waiting.json["error"]["message"])
                return
        self.fail("every turn was over before the next one came")

    def test_ending_a_turn_touches_no_other_request(self):
        session = self.open()
        long = {"input_ids": [3], "sampling_params": {**GREEDY, "max_new_tokens": 400}}
        answers = []
        others = threading.Thread(target=lambda: answers.append(self.server.post("/generate", {**long, "rid": "turnip"})))
        others.start()
        raw = self.server.open_stream("/generate", {**long, "rid": "turn", "stream": True, "session_params": {"id": session}})
        raw.recv(100)
        self.assertEqual(self.server.post("/close_session", {"session_id": session}).status, 200)
        others.join()
        raw.close()
        self.assertEqual(answers[0].json["meta_info"]["finish_reason"]["type"], "length")

    def test_a_turn_that_was_refused_replaces_nothing(self):
        session = self.open()
        first = self.turn(session, [5, 6])["meta_info"]["id"]
        second = self.turn(session, [7], first)["meta_info"]["id"]
        for rid in (first, ""):
            self.refused({"session_params": {"id": session, "rid": rid, "replace": True}, "input_ids": [1] * 600}, 400, "input_ids")
        self.turn(session, [8], second)

    def test_bad_turns_name_the_field(self):
        session = self.open()
        self.refused({"session_params": {"id": "none"}}, 404, "session_params.id")
        self.refused({"session_params": {}}, 400, "session_params.id")
        self.refused({"session_params": 5}, 400, "session_params")
        self.refused({"session_params": {"id": session, "offset": "x"}}, 400, "session_params.offset")
        self.refused({"session_params": {"id": session, "rid": "none"}}, 400, "session_params.rid")
        self.refused({"session_params": {"id": session}, "input_ids": [[1], [2]]}, 400, "session_params")
        self.refused({"session_params": {"id": session}, "input_ids": [1] * 600}, 400, "input_ids")
        self.refused({"session_params": {"id": self.open(capacity_of_str_len=3)}, "input_ids": [1] * 4}, 400, "session_params")
        self.turn(session, [1])  # a turn that was refused never was

    def test_sessions_are_named_closed_and_counted(self):
        self.assertEqual(self.open(session_id="mine"), "mine")
        again = self.server.post("/open_session", {"capacity_of_str_len": 1, "session_id": "mine"})
        self.assertEqual((again.status, again.json["error"]["param"]), (400, "session_id"))
        self.assertEqual(self.server.post("/close_session", {"session_id": "mine"}).status, 200)
        self.assertEqual(self.server.post("/close_session", {"session_id": "mine"}).status, 404)
        self.refused({"session_params": {"id": "mine"}}, 404, "session_params.id")
        with Server("--max-sessions", "2", "--session-timeout", "1") as server:
            ids = [server.post("/open_session", {}).json for _ in range(2)]
            full = server.post("/open_session", {})
            self.assertEqual((full.status, full.json["error"]["code"]), (429, "too_many_sessions"))
            threading.Event().wait(1.2)
            self.assertEqual(server.post("/open_session", {}).status, 200)
            self.assertEqual(server.post("/close_session", {"session_id": ids[0]}).status, 404)

    def test_a_session_belongs_to_the_key_that_opened_it(self):
        with Server("--api-key", "a,b") as server:
            a, b = ({"Authorization": "Bearer " + key} for key in "ab")
            session = server.post("/open_session", {}, headers=a).json
            body = {"input_ids": [1], "sampling_params": GREEDY, "session_params": {"id": session}}
            self.assertEqual(server.post("/generate", body, headers=b).status, 404)
            self.assertEqual(server.post("/close_session", {"session_id": session}, headers=b).status, 404)
            self.assertEqual(server.post("/generate", body, headers=a).status, 200)


class Pins(unittest.TestCase):
    PREFIX = [(7 * i) % 300 + 1 for i in range(100)]

    def fill(self, server):
        for i in range(6):
            server.generate(input_ids=[(11 * i + 13 * k) % 300 + 1 for k in range(120)], sampling_params=GREEDY)

    def cached(self, server, **more):
        reply = server.generate(input_ids=self.PREFIX + [9], sampling_params=GREEDY, **more)
        return reply["meta_info"]["cached_tokens"]

    def test_what_is_pinned_stays_when_memory_is_short(self):
        with Server("--max-total-tokens", "300") as server:
            made = server.post("/v1/cache/pin", {"input_ids": self.PREFIX, "id": "system"})
            self.assertEqual(made.status, 200, made.body)
            self.assertEqual((made.json["id"], made.json["tokens"], made.json["seconds_left"]), ("system", 100, None))
            self.fill(server)
            self.assertEqual(self.cached(server), 100)
            self.assertEqual([pin["id"] for pin in server.get("/v1/cache/pins").json["data"]], ["system"])
            self.assertEqual(server.post("/v1/cache/unpin", {"id": "system"}).status, 200)
            self.fill(server)
            self.assertLess(self.cached(server), 100)
            self.assertEqual(server.post("/v1/cache/unpin", {"id": "system"}).status, 404)

    def test_a_pin_gives_way_to_a_request_that_could_not_run(self):
        with Server("--max-total-tokens", "300") as server:
            server.post("/v1/cache/pin", {"input_ids": self.PREFIX})
            reply = server.generate(input_ids=[5] * 290, sampling_params=GREEDY)
            self.assertEqual(reply["meta_info"]["completion_tokens"], 5)
            self.assertEqual(server.get("/v1/cache/pins").json["data"], [])

    def test_pins_end_by_themselves_and_with_a_flush(self):
        with Server() as server:
            server.post("/v1/cache/pin", {"input_ids": self.PREFIX, "seconds": 0.2})
            server.post("/v1/cache/pin", {"input_ids": self.PREFIX[:50], "cache_salt": "x"})
            self.assertEqual(len(server.get("/v1/cache/pins").json["data"]), 2)
            self.assertEqual(self.cached(server, cache_salt="x"), 50)
            threading.Event().wait(0.3)
            self.assertEqual(len(server.get("/v1/cache/pins").json["data"]), 1)
            self.assertEqual(server.post("/flush_cache", None).status, 200)
            self.assertEqual(server.get("/v1/cache/pins").json["data"], [])

    def test_bad_pins_name_the_field(self):
        with Server("--max-total-tokens", "300") as server:
            for body, status, field in (({}, 400, "text"), ({"input_ids": [1], "text": "a"}, 400, "text"), ({"input_ids": [1] * 200}, 400, "text"),
                                        ({"input_ids": [1], "seconds": -1}, 400, "seconds"), ({"input_ids": [1], "id": 5}, 400, "id"),
                                        ({"input_ids": [999]}, 400, "input_ids"), ({"input_ids": []}, 400, "input_ids")):
                reply = server.post("/v1/cache/pin", body)
                self.assertEqual((reply.status, reply.json["error"]["param"]), (status, field), (body, reply.body))
            self.assertEqual(server.post("/v1/cache/pin", {"input_ids": self.PREFIX, "id": "a"}).status, 200)
            self.assertEqual(server.post("/v1/cache/pin", {"input_ids": [2] * 3, "id": "a"}).json["error"]["param"], "id")
            full = server.post("/v1/cache/pin", {"input_ids": [3] * 100})
            self.assertEqual((full.status, full.json["error"]["code"]), (429, "pins_full"))
            self.assertEqual(server.post("/v1/cache/pin", {"input_ids": self.PREFIX + [5] * 40}).status, 200)
        with Server("--disable-radix-cache") as server:
            self.assertEqual(server.post("/v1/cache/pin", {"input_ids": [1, 2]}).status, 400)

    def test_pinning_asks_for_the_admin_key(self):
        with Server("--api-key", "user", "--admin-api-key", "admin") as server:
            body = {"input_ids": [1, 2, 3]}
            self.assertIn(server.post("/v1/cache/pin", body, headers={"Authorization": "Bearer user"}).status, (401, 403))
            self.assertEqual(server.post("/v1/cache/pin", body, headers={"Authorization": "Bearer admin"}).status, 200)
            self.assertIn(server.get("/v1/cache/pins", headers={"Authorization": "Bearer user"}).status, (401, 403))


if __name__ == "__main__":
    unittest.main()
