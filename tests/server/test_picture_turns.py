"""Pictures that stay: in sessions, in pinned prefixes, in stored responses, as uploaded files, and in programs.

The model is a golden of the repository that sees: mm-gemma3.
"""
import base64
import itertools
import json
import pathlib
import shutil
import tempfile
import unittest

from graphs import argument, fork, gen, graph, join, select, text, variable
from harness import SOURCE, Server

MODEL = SOURCE / "tests" / "data" / "goldens" / "models" / "mm-gemma3"
PICTURES = SOURCE / "tests" / "data" / "pictures"
CASES = {case["name"]: case for case in json.loads((MODEL / "golden.json").read_text())["cases"]}
ONE, TWO = CASES["one-image"], CASES["two-images"]
FLOODS = itertools.count()
GREEDY = {"temperature": 0, "max_new_tokens": 6, "ignore_eos": True}


def data_url(path):
    kind = "jpeg" if path.suffix == ".jpg" else path.suffix[1:]
    return f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


FIRST, SECOND = data_url(MODEL / "image0.png"), data_url(MODEL / "image1.png")


class Seeing(unittest.TestCase):
    """One server for the tests of a class."""
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.root)
        (cls.root / "media").mkdir()
        cls.flags = ("--data-dir", str(cls.root / "data"), "--media-dir", str(cls.root / "media"), *cls.FLAGS)
        cls.server = Server(*cls.flags, model=MODEL)

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()

    def ok(self, path, body):
        reply = self.server.post(path, body)
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json

    def refused(self, path, body, status, field):
        reply = self.server.post(path, body)
        self.assertEqual(reply.status, status, reply.body)
        told = reply.json.get("error", reply.json)
        if field is not None:
            self.assertEqual(told["param"], field, reply.body)
        return told["message"]

    def flood(self):
        """Prompts that nobody asks again, until all that may go has gone."""
        for i in range(12):
            first = 20 + next(FLOODS) % 80
            self.server.generate(input_ids=[20 + i, first, *range(20, 110)], sampling_params={**GREEDY, "max_new_tokens": 1})


class Marks(Seeing):
    def test_those_that_are_missing_are_named(self):
        told = self.refused("/generate", {"text": "<image> <image>", "image_data": [FIRST], "sampling_params": GREEDY}, 400, None)
        self.assertIn("has 2 marks of pictures and films, but it needs 1 <image> for the pictures", told)


class Sessions(Seeing):
    def turn(self, session, ids, pictures=None, rid=None, **more):
        params = {"id": session, **({"rid": rid} if rid else {}), **more}
        return self.ok("/generate", {"input_ids": ids, "image_data": pictures, "sampling_params": GREEDY, "session_params": params})

    def whole(self, ids, pictures):
        return self.server.generate(input_ids=ids, image_data=pictures, sampling_params=GREEDY)["output_ids"]

    def test_a_turn_sees_the_pictures_of_turns_before(self):
        ids = ONE["tokens_one_placeholder_per_image"]
        session = self.ok("/open_session", {"capacity_of_str_len": 4000})
        first = self.turn(session, ids, [FIRST])
        self.assertEqual(first["output_ids"], self.whole(ids, [FIRST]))
        rid, said = first["meta_info"]["id"], first["output_ids"]
        second = self.turn(session, [30, 31], rid=rid)
        self.assertEqual(second["output_ids"], self.whole([*ids, *said, 30, 31], [FIRST]))
        self.assertEqual(second["meta_info"]["image_tokens"], ONE["tokens_per_image"][0])
        self.assertEqual(second["meta_info"]["cached_image_tokens"], ONE["tokens_per_image"][0])
        third = self.turn(session, ids[1:], [SECOND], rid=rid)
        self.assertEqual(third["output_ids"], self.whole([*ids, *said, *ids[1:]], [FIRST, SECOND]))
        self.assertNotEqual(third["output_ids"], self.whole([*ids, *said, *ids[1:]], [FIRST, FIRST]))

    def test_what_left_the_cache_is_computed_again(self):
        ids = ONE["tokens_one_placeholder_per_image"]
        session = self.ok("/open_session", {"capacity_of_str_len": 4000})
        first = self.turn(session, ids, FIRST)
        again = self.turn(session, [40], rid=first["meta_info"]["id"])
        self.assertEqual(self.server.post("/flush_cache", {}).status, 200)
        later = self.turn(session, [40], rid=first["meta_info"]["id"])
        self.assertEqual(later["meta_info"]["cached_tokens"], 0)
        self.assertEqual(later["output_ids"], again["output_ids"])

    def test_a_file_that_is_gone_stays_in_the_session(self):
        path = self.root / "media" / "gone.png"
        shutil.copy(MODEL / "image0.png", path)
        ids = ONE["tokens_one_placeholder_per_image"]
        session = self.ok("/open_session", {"capacity_of_str_len": 4000})
        first = self.turn(session, ids, f"file://{path}")
        path.unlink()
        self.assertEqual(self.server.post("/flush_cache", {}).status, 200)
        second = self.turn(session, [30, 31], rid=first["meta_info"]["id"])
        self.assertEqual(second["output_ids"], self.whole([*ids, *first["output_ids"], 30, 31], [FIRST]))

    def test_a_picture_is_kept_or_dropped_whole(self):
        ids = ONE["tokens_one_placeholder_per_image"]
        at = ONE["tokens"].index(6)
        session = self.ok("/open_session", {"capacity_of_str_len": 4000})
        rid = self.turn(session, ids, FIRST)["meta_info"]["id"]
        before = self.turn(session, [33], rid=rid, offset=at)
        self.assertEqual(before["output_ids"], self.whole([*ONE["tokens"][:at], 33], None))
        body = {"input_ids": [33], "sampling_params": GREEDY, "session_params": {"id": session, "rid": rid, "offset": at + 1}}
        self.assertIn("inside a picture", self.refused("/generate", body, 400, "session_params.offset"))
        self.refused("/generate", {**body, "image_data": "%%%", "input_ids": ids}, 400, "image_data")
        self.turn(session, [33], rid=rid)  # a turn that was refused never was


class Pins(Seeing):
    FLAGS = ("--max-total-tokens", "640", "--cache-disk", "0")

    def test_a_pinned_prefix_keeps_its_pictures(self):
        ids = TWO["tokens_one_placeholder_per_image"]
        before = self.server.generate(input_ids=[*ids, 40], image_data=[FIRST, SECOND], sampling_params=GREEDY)
        self.assertEqual(self.server.post("/flush_cache", {}).status, 200)
        pin = self.ok("/v1/cache/pin", {"input_ids": ids, "image_data": [FIRST, SECOND], "id": "both"})
        self.assertEqual(pin["tokens"], len(TWO["tokens"]))
        self.flood()
        after = self.server.generate(input_ids=[*ids, 40], image_data=[FIRST, SECOND], sampling_params=GREEDY)
        self.assertEqual(after["output_ids"], before["output_ids"])
        self.assertGreaterEqual(after["meta_info"]["cached_tokens"], len(TWO["tokens"]))
        other = self.server.generate(input_ids=[*ids, 40], image_data=[SECOND, SECOND], sampling_params=GREEDY)
        self.assertLess(other["meta_info"]["cached_tokens"], TWO["tokens"].index(6) + 1)
        self.ok("/v1/cache/unpin", {"id": "both"})
        self.flood()
        gone = self.server.generate(input_ids=[*ids, 40], image_data=[FIRST, SECOND], sampling_params=GREEDY)
        self.assertEqual(gone["meta_info"]["cached_image_tokens"], 0)

    def test_messages_with_pictures_can_be_pinned(self):
        messages = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": FIRST}}, {"type": "text", "text": "what?"}]}]
        pin = self.ok("/v1/cache/pin", {"messages": messages, "add_generation_prompt": False, "id": "chat"})
        self.flood()
        told = self.ok("/v1/chat/completions", {"messages": messages, "max_tokens": 3, "temperature": 0})["usage"]["prompt_tokens_details"]
        self.assertGreaterEqual(told["cached_tokens"], pin["tokens"] - 1)
        self.assertEqual(told["cached_image_tokens"], told["image_tokens"])
        self.ok("/v1/cache/unpin", {"id": "chat"})

    def test_cache_control_behind_a_picture_pins_the_picture(self):
        picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": FIRST.split(",")[1]}}
        marked = {**picture, "cache_control": {"type": "ephemeral"}}

        def asked(*blocks):
            return self.ok("/v1/messages", {"max_tokens": 3, "temperature": 0, "messages": [{"role": "user", "content": list(blocks)}]})["usage"]
        asked({"type": "text", "text": "look"}, marked, {"type": "text", "text": "what is it?"})
        held = [pin for pin in self.server.get("/v1/cache/pins").json["data"] if pin["id"].startswith("cache-control-")]
        self.assertEqual(len(held), 1)
        self.assertGreater(held[0]["tokens"], ONE["tokens_per_image"][0])
        self.flood()
        again = asked({"type": "text", "text": "look"}, picture, {"type": "text", "text": "and where?"})
        self.assertGreaterEqual(again["cache_read_input_tokens"], held[0]["tokens"])
        self.ok("/v1/cache/unpin", {"id": held[0]["id"]})


class Responses(Seeing):
    def ask(self, content, server=None, **more):
        body = {"input": [{"role": "user", "content": content}], "max_output_tokens": 6, "temperature": 0, **more}
        reply = (server or self.server).post("/v1/responses", body)
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json

    @staticmethod
    def said(response):
        return [part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"]]

    def test_a_picture_stays_part_of_the_conversation_also_behind_a_restart(self):
        path = self.root / "media" / "soon-gone.png"
        shutil.copy(MODEL / "image0.png", path)
        for url in (FIRST, f"file://{path}"):
            content = [{"type": "input_image", "image_url": url}, {"type": "input_text", "text": "what is it?"}]
            first = self.ask(content)
            other = self.ask([{"type": "input_image", "image_url": SECOND}, content[1]])
            if url != FIRST:
                path.unlink()
            second = self.ask("and where?", previous_response_id=first["id"])
            details = second["usage"]["input_tokens_details"]
            self.assertEqual(details["image_tokens"], ONE["tokens_per_image"][0])
            self.assertEqual(details["cached_image_tokens"], details["image_tokens"])
            self.assertNotEqual(self.said(second), self.said(self.ask("and where?", previous_response_id=other["id"])))
            kept = self.server.get(f"/v1/responses/{first['id']}/input_items").json["data"][0]["content"][0]
            self.assertTrue(kept["image_url"].startswith("data:"), kept["image_url"][:40])
        self.server.stop()
        with Server(*self.flags, model=MODEL) as later:
            again = self.ask("and where?", server=later, previous_response_id=first["id"])
            self.assertEqual(self.said(again), self.said(second))
            self.assertEqual(again["usage"]["input_tokens_details"]["image_tokens"], ONE["tokens_per_image"][0])
        type(self).server = Server(*self.flags, model=MODEL)

    def test_a_conversation_keeps_its_pictures(self):
        conversation = self.ok("/v1/conversations", {})["id"]
        self.ask([{"type": "input_image", "image_url": FIRST}], conversation=conversation)
        second = self.ask("where?", conversation=conversation)
        self.assertEqual(second["usage"]["input_tokens_details"]["cached_image_tokens"], ONE["tokens_per_image"][0])

    def test_the_part_at_fault_is_named(self):
        good, bad = {"type": "input_image", "image_url": FIRST}, {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
        words = {"role": "user", "content": "words"}
        self.refused("/v1/responses", {"input": [words, {"role": "user", "content": [good, bad]}]}, 400, "input[1].content[1]")
        output = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}, bad]}
        call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
        self.refused("/v1/responses", {"input": [words, call, output]}, 400, "input[2].output[1]")
        many = [good] * 65
        self.refused("/v1/responses", {"input": [{"role": "user", "content": many}]}, 400, "input[0].content[64]")
        with Server() as blind:
            reply = blind.post("/v1/responses", {"input": [words, {"role": "user", "content": [good]}]})
            self.assertEqual((reply.status, reply.json["error"]["param"]), (400, "input[1].content[0]"), reply.body)
            self.assertIn("reads no pictures", reply.json["error"]["message"])


class Uploads(Seeing):
    FLAGS = ("--api-key", "ours,theirs")

    def post(self, path, body, key="ours"):
        return self.server.post(path, body, headers={"Authorization": f"Bearer {key}"})

    def upload(self, data, purpose="vision"):
        edge = "edge-of-parts"
        body = (f'--{edge}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\n{purpose}\r\n--{edge}\r\n'
                f'Content-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n').encode() + data + f"\r\n--{edge}--\r\n".encode()
        reply = self.server.request("POST", "/v1/files", body=body, headers={
            "Authorization": "Bearer ours", "Content-Type": f"multipart/form-data; boundary={edge}"})
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json["id"]

    def test_an_uploaded_picture_is_named_by_its_id(self):
        question = {"type": "input_text", "text": "what?"}
        ask = lambda part: self.post("/v1/responses", {"input": [{"role": "user", "content": [part, question]}], "max_output_tokens": 16, "temperature": 0})
        wanted = ask({"type": "input_image", "image_url": FIRST}).json
        for purpose in ("vision", "user_data"):
            id = self.upload((MODEL / "image0.png").read_bytes(), purpose)
            for part in ({"type": "input_image", "file_id": id, "detail": "low"}, {"type": "input_file", "file_id": id}):
                reply = ask(part)
                self.assertEqual(reply.status, 200, reply.body)
                self.assertEqual([each.get("content") for each in reply.json["output"]], [each.get("content") for each in wanted["output"]])
                self.assertEqual(reply.json["usage"]["input_tokens"], wanted["usage"]["input_tokens"])
        chat = {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": id}}, {"type": "text", "text": "what?"}]}]}
        self.assertEqual(self.post("/v1/chat/completions/input_tokens", chat).json["input_tokens"], wanted["usage"]["input_tokens"])
        block = {"type": "image", "source": {"type": "file", "file_id": id}}
        told = self.post("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": [block, {"type": "text", "text": "what?"}]}]})
        self.assertEqual(told.json.get("input_tokens"), wanted["usage"]["input_tokens"], told.body)

    def test_a_file_that_is_deleted_stays_in_the_conversation(self):
        id = self.upload((MODEL / "image0.png").read_bytes())
        first = self.post("/v1/responses", {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": id}]}], "max_output_tokens": 4})
        self.assertEqual(first.status, 200, first.body)
        self.assertEqual(self.server.request("DELETE", f"/v1/files/{id}", headers={"Authorization": "Bearer ours"}).status, 200)
        second = self.post("/v1/responses", {"input": "where?", "previous_response_id": first.json["id"], "max_output_tokens": 4})
        self.assertEqual(second.status, 200, second.body)
        self.assertEqual(second.json["usage"]["input_tokens_details"]["image_tokens"], ONE["tokens_per_image"][0])

    def test_files_of_others_and_files_that_are_no_pictures_are_refused(self):
        id = self.upload((MODEL / "image0.png").read_bytes())
        body = {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": id}]}]}
        reply = self.post("/v1/responses", body, "theirs")
        self.assertEqual((reply.status, reply.json["error"]["param"]), (404, "input[0].content[0].file_id"), reply.body)
        body["input"][0]["content"][0]["file_id"] = self.upload(b"no picture at all", "user_data")
        reply = self.post("/v1/responses", body)
        self.assertEqual((reply.status, reply.json["error"]["param"], reply.json["error"]["code"]), (400, "input[0].content[0]", "invalid_image"), reply.body)

    def test_sound_is_refused_with_a_sentence(self):
        sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
        for path, body in (("/v1/chat/completions", {"messages": [{"role": "user", "content": [sound]}]}),
                           ("/v1/responses", {"input": [{"role": "user", "content": [sound]}]})):
            reply = self.post(path, body)
            self.assertEqual(reply.status, 400, reply.body)
            self.assertIn("hears", reply.json["error"]["message"])
            self.assertTrue(reply.json["error"]["param"].endswith("content[0].type"), reply.body)


class Judge(Seeing):
    """The judge of examples/ as a graph, with a photograph: POST /v1/programs."""
    SIDES = ("Clarity", "Originality", "Evidence")

    def program(self, picture):
        def turn(role, *inside, of=0):
            return ({"stream": of, "kind": "role_begin", "role": role}, *inside, {"stream": of, "kind": "role_end", "role": role})
        shown = [{"stream": 0, "kind": "media", "media": "image", "data": base64.b64encode(picture).decode()}] if picture else []
        nodes = [*turn("user", *shown, text("Text: "), argument("essay"), text(" What kind of text is this?")),
                 *turn("assistant", text("Kind of text: "), select("kind", "essay", "recipe", "letter")), fork(1, 2, 3)]
        for i, side in enumerate(self.SIDES, 1):
            nodes += turn("user", text(f"Judge its {side}.", i), of=i)
            nodes += turn("assistant", gen("judgement", i, max_tokens=8), text(" Score: ", i), gen("score", i, regex="[1-5]"), of=i)
        nodes += [join(1, 2, 3), *turn("user", text("The judgements: "), *(variable("score", i) for i in (1, 2, 3))),
                  *turn("assistant", gen("report", max_tokens=60, regex=r'\{"grade": "[ABCD][+-]?"\}'))]
        return graph(*nodes, parameters=["essay"], streams=4)

    def judged(self, picture):
        reply = self.ok("/v1/programs", {"program": self.program(picture), "arguments": {"essay": "Cities should plant more trees."},
                                         "sampling_params": {"temperature": 0}})
        return reply["results"][0], reply["usage"]

    def test_an_essay_about_a_picture_is_judged_from_all_sides(self):
        run, usage = self.judged((PICTURES / "rgb.jpg").read_bytes())
        self.assertIn(run["variables"]["kind"], ("essay", "recipe", "letter"))
        self.assertEqual(len(run["variables"]["judgement"]), 3)
        for score in run["variables"]["score"]:
            self.assertRegex(score, "^[1-5]$")
        self.assertRegex(json.loads(run["variables"]["report"])["grade"], "^[ABCD][+-]?$")
        self.assertGreater(usage["cached_tokens"], usage["prompt_tokens"] // 2, "the branches share the picture")
        self.assertNotEqual(run["variables"]["judgement"], self.judged(None)[0]["variables"]["judgement"], "the picture counts")
        self.assertEqual(run["variables"], self.judged((PICTURES / "rgb.jpg").read_bytes())[0]["variables"])


if __name__ == "__main__":
    unittest.main()
