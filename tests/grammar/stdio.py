"""`espalier grammar --stdio` as a process: what it answers to good and bad requests, what it says of the data sets beside the
checkout (../shared/schemas), and whether masks, walks and matches agree token by token.
"""
import collections
import json
import pathlib
import tempfile
import unittest

from engine import SLOWER, SOURCE, TOKENIZER, Engine, EngineCase, Gone, make_tokenizer

SCHEMAS = SOURCE.parent / "shared" / "schemas"


class Protocol(unittest.TestCase):
    def setUp(self):
        self.engine = Engine()
        self.addCleanup(self.engine.close)

    def expect_refusal(self, **request):
        reply = self.engine.ask(**request)
        self.assertIs(reply["ok"], False, request)
        self.assertIsInstance(reply["error"], str)
        self.assertTrue(reply["error"])
        return reply["error"]

    def test_a_tokenizer_says_its_size_and_its_end(self):
        opened = self.engine.opened
        self.assertTrue(opened["ok"], opened)
        self.assertEqual(opened["vocab"], 1204)
        self.assertGreaterEqual(opened["micros"], 0)
        named = {piece["content"]: piece["id"] for piece in json.loads(TOKENIZER.read_text())["added_tokens"]}
        self.assertEqual(opened["eos"], named["<|im_end|>"])
        self.assertEqual(self.engine.ask(op="tokenizer", path=str(TOKENIZER), eos=7)["eos"], 7)

    def test_a_compilation_says_its_number_and_its_cost(self):
        replies = [self.engine.compile("regex", "a+") for _ in range(2)]
        self.assertNotEqual(replies[0]["id"], replies[1]["id"])
        for reply in replies:
            self.assertIs(reply["ok"], True)
            self.assertGreater(reply["micros"], 0)
            self.assertGreater(reply["cpu_micros"], 0)
        refused = self.engine.compile("regex", "a(")
        self.assertIs(refused["ok"], False)
        self.assertGreaterEqual(refused["micros"], 0)

    def test_a_walk_stops_at_the_first_token_that_is_not_allowed(self):
        grammar = self.engine.grammar("regex", "[0-9]{3}")
        digit, letter = (json.loads(TOKENIZER.read_text())["model"]["vocab"][c] for c in "1a")
        reply = self.engine.walk(grammar, [digit, letter, digit])
        self.assertEqual(reply["allowed"], [1, 0])
        for name in ("popcount", "micros", "cpu_micros"):
            self.assertEqual(len(reply[name]), 2, name)
        self.assertIs(reply["complete"], False)
        whole = self.engine.walk(grammar, [digit] * 3)
        self.assertEqual((whole["allowed"], whole["complete"]), ([1, 1, 1], True))
        self.assertEqual(self.engine.walk(grammar, [])["allowed"], [])

    def test_the_end_may_come_exactly_when_the_text_is_complete(self):
        eos = self.engine.opened["eos"]
        digit = json.loads(TOKENIZER.read_text())["model"]["vocab"]["1"]
        grammar = self.engine.grammar("regex", "[0-9]{2}")
        self.assertEqual(self.engine.walk(grammar, [digit, eos])["allowed"], [1, 0])
        ended = self.engine.walk(grammar, [digit, digit, eos])
        self.assertEqual((ended["allowed"], ended["popcount"][2], ended["complete"]), ([1, 1, 1], 0, True))

    def test_special_tokens_are_never_allowed(self):
        grammar = self.engine.grammar("regex", "(?s).*")
        for piece in json.loads(TOKENIZER.read_text())["added_tokens"]:
            allowed = self.engine.walk(grammar, [piece["id"]])["allowed"] == [1]
            if piece["special"]:
                self.assertEqual(allowed, piece["id"] == self.engine.opened["eos"], piece)

    def test_an_empty_measurement_tells_what_the_clock_costs(self):
        reply = self.engine.ask(op="empty")
        self.assertTrue(reply["ok"], reply)
        self.assertTrue(0 <= reply["micros"] < 1e6 and 0 <= reply["cpu_micros"] < 1e6, reply)

    def test_forced_bytes_are_what_every_text_goes_on_with(self):
        grammar = self.engine.grammar("choice", ["begin", "between"])
        vocabulary = json.loads(TOKENIZER.read_text())["model"]["vocab"]
        reply = self.engine.walk(grammar, [vocabulary["b"], vocabulary["e"], vocabulary["g"]], forced=True)
        self.assertEqual([f and bytes.fromhex(f[0]) for f in reply["forced"]], [b"be", b"e", 0])
        self.assertEqual(len(reply["forced_micros"]), 3)
        self.assertNotIn("forced", self.engine.walk(grammar, [], forced=False))

    def test_options_hold_for_what_is_compiled_later(self):
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
        for options, texts in (({"ws": "compact"}, ('{"a":1}', '{"a": 1}', '{"a":1,"b":2}')), ({"ws": "flex"}, ('{ "a" : 1 }', ' {"a":1}', '{"a":1}\n')),
                               ({"ws": "compact", "strict": True}, ('{"a":1}', '{"a":1,"b":2}', '{"b":2}'))):
            self.assertEqual(self.engine.ask(op="options", **options), {"ok": True})
            grammar = self.engine.grammar("json_schema", schema)
            expected = [True, False, options == {"ws": "compact"}]
            self.assertEqual([self.engine.match(grammar, text) for text in texts], expected, options)
        self.expect_refusal(op="options", ws="wide")

    def test_a_prefix_is_accepted_and_not_complete(self):
        grammar = self.engine.grammar("regex", "abc")
        self.assertEqual(self.engine.ask(op="match", id=grammar, text="ab"), {"ok": True, "accepted": True, "complete": False})
        self.assertEqual(self.engine.ask(op="match", id=grammar, text="abc"), {"ok": True, "accepted": True, "complete": True})
        self.assertEqual(self.engine.ask(op="match", id=grammar, text="abd"), {"ok": True, "accepted": False, "complete": False})

    def test_a_freed_grammar_is_gone(self):
        grammar = self.engine.grammar("regex", "a")
        self.assertEqual(self.engine.ask(op="free", id=grammar), {"ok": True})
        self.expect_refusal(op="match", id=grammar, text="a")
        self.expect_refusal(op="walk", id=grammar, tokens=[1])

    def test_every_wrong_request_is_answered_and_the_process_goes_on(self):
        grammar = self.engine.grammar("regex", "a+")
        for request in ({}, {"op": 5}, {"op": "dance"}, {"op": "tokenizer"}, {"op": "tokenizer", "path": "/no/such/file"},
                        {"op": "tokenizer", "path": "/dev/null"}, {"op": "tokenizer", "path": str(SOURCE)},
                        {"op": "compile"}, {"op": "compile", "kind": "regex"}, {"op": "compile", "kind": "haiku", "spec": ""},
                        {"op": "compile", "kind": "regex", "spec": "(?=a)"}, {"op": "compile", "kind": "regex", "spec": "["},
                        {"op": "compile", "kind": "regex", "spec": 5}, {"op": "compile", "kind": "regex", "spec": None},
                        {"op": "compile", "kind": "choice", "spec": "abc"}, {"op": "compile", "kind": "choice", "spec": []},
                        {"op": "compile", "kind": "choice", "spec": [1]}, {"op": "compile", "kind": "ebnf", "spec": "nothing ::="},
                        {"op": "compile", "kind": "lark", "spec": "start: other"}, {"op": "compile", "kind": "json_schema", "spec": 5},
                        {"op": "compile", "kind": "json_schema", "spec": {"type": "strin"}}, {"op": "compile", "kind": "json_schema", "spec": False},
                        {"op": "match", "id": grammar}, {"op": "match", "id": grammar, "text": 5}, {"op": "match", "id": 999999, "text": ""},
                        {"op": "match", "id": "x", "text": ""}, {"op": "match", "text": ""}, {"op": "walk", "id": grammar},
                        {"op": "walk", "id": grammar, "tokens": "a"}, {"op": "walk", "id": grammar, "tokens": [-1]},
                        {"op": "walk", "id": grammar, "tokens": [1 << 40]}, {"op": "walk", "id": grammar, "tokens": [1.5]},
                        {"op": "walk", "id": -1, "tokens": []}, {"op": "options", "ws": 5}, {"op": "options", "strict": "yes"}, {"op": "free"}):
            self.expect_refusal(**request)
            self.assertTrue(self.engine.match(grammar, "aa"), request)

    def test_lines_that_are_no_request_are_answered_and_the_process_goes_on(self):
        grammar = self.engine.grammar("regex", "a+")
        for line in (b"x", b"{", b'{"op":', b"[]", b"null", b'"op"', b"17", b'{"op":"match","op":"match"', b"\xff\xfe", b'{"op":"\xff"}', b"\0",
                     b'{"op":"match","id":1e999}', b"[" * 100000, b'{"a":' * 5000, b"[" + b"1," * 200000 + b"1]"):
            self.engine.send(line + b"\n")
            reply = self.engine.line()
            self.assertIs(reply["ok"], False, line[:40])
            self.assertIsInstance(reply["error"], str)
            self.assertTrue(self.engine.match(grammar, "aa"), line[:40])

    def test_nothing_is_compiled_without_a_tokenizer(self):
        with Engine(tokenizer=None) as engine:
            self.assertIs(engine.compile("regex", "a")["ok"], False)
            self.assertIs(engine.ask(op="tokenizer", path=str(TOKENIZER))["ok"], True)
            self.assertIs(engine.compile("regex", "a")["ok"], True)

    def test_a_failed_tokenizer_leaves_the_one_before(self):
        self.expect_refusal(op="tokenizer", path="/no/such/file")
        self.assertTrue(self.engine.match(self.engine.grammar("regex", "a+"), "aa"))

    def test_grammars_outlive_a_change_of_tokenizer_or_say_so(self):
        grammar = self.engine.grammar("regex", "a+")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tokenizer.json"
            size = len(make_tokenizer(path))
            self.assertEqual(self.engine.ask(op="tokenizer", path=str(path))["vocab"], size)
        for request in ({"op": "match", "id": grammar, "text": "a"}, {"op": "walk", "id": grammar, "tokens": [size - 1, 5]},
                        {"op": "walk", "id": grammar, "tokens": [97, 97], "forced": True}):
            self.assertIn("ok", self.engine.ask(**request))
        self.assertTrue(self.engine.match(self.engine.grammar("regex", "a+"), "aa"))

    def test_quit_and_the_end_of_input_end_it_with_success(self):
        self.engine.send(b'{"op":"quit"}\n')
        self.assertEqual(self.engine.process.wait(30 * SLOWER), 0)
        self.assertEqual(self.engine.process.stdout.read(), b"")
        for last in (b"", b'{"op":"free","id":1}', b'{"op":"free","id":1}\n', b'{"op":'):
            with Engine() as engine:
                engine.send(last)
                engine.process.stdin.close()
                self.assertEqual(engine.process.wait(30 * SLOWER), 0, last)


def items_of(name):
    """The items of a set; under a sanitizer a tenth of them."""
    items = [json.loads(line) for line in (SCHEMAS / f"{name}_public.jsonl").read_text().splitlines()]
    return items[::10] if SLOWER > 1 else items


def text_of(test, compact=False):
    return test["text"] if "text" in test else json.dumps(test["data"], ensure_ascii=False, separators=(",", ":") if compact else None)


@unittest.skipUnless(SCHEMAS.is_dir(), f"left out: {SCHEMAS} is not there")
class DataSets(unittest.TestCase):
    # Valid instances that are not in the order which the schema declares.
    OTHER_ORDER = set()
    # Items of draft 7 that say no $schema and mean something else in 2020-12.
    DESCRIBED = ("draft7/ref#",)

    def setUp(self):
        self.engine = Engine()
        self.addCleanup(self.engine.close)
        self.engine.ask(op="options", ws="flex")
        self.wrong = []

    def verdicts(self, item, kind, spec):
        """Whether it compiled; `self.wrong` gets what is not as the item says."""
        name, expect = item["id"], item.get("expect", "ok")
        reply = self.engine.compile(kind, spec)
        if not reply["ok"]:
            if expect == "ok":
                self.wrong.append((name, kind, "refused", reply["error"]))
            return False
        if expect == "reject":
            self.wrong.append((name, kind, "not refused"))
        for test in item.get("tests", ()):
            if expect != "bounded":
                if self.engine.match(reply["id"], text_of(test)) != test["valid"]:
                    self.wrong.append((name, kind, test))
            else:
                answer = self.engine.ask(op="match", id=reply["id"], text=text_of(test))
                if answer["ok"] and answer["complete"] and not test["valid"]:
                    self.wrong.append((name, kind, test))
        self.engine.free(reply["id"])
        return True

    def test_every_verdict_on_regexes_is_right(self):
        for item in items_of("regex"):
            self.verdicts(item, "regex", item["spec"])
        self.assertEqual(self.wrong, [])

    def test_every_verdict_on_grammars_is_right_in_both_notations(self):
        for item in items_of("ebnf"):
            self.verdicts(item, "ebnf", item["spec"])
            if "lark" in item:
                self.verdicts(item, "lark", item["lark"])
        self.assertEqual(self.wrong, [])

    def test_every_verdict_on_choices_and_tags_is_right(self):
        for item in items_of("choice_tags"):
            self.verdicts(item, item["kind"], item["spec"])
        self.assertEqual(self.wrong, [])

    def test_real_schemas_compile_and_tell_valid_from_invalid(self):
        for spaces in ("flex", "compact"):
            self.engine.ask(op="options", ws=spaces)
            items, compiled, misjudged = items_of("jsonschemabench"), 0, []
            for item in items:
                reply = self.engine.compile("json_schema", item["spec"])
                compiled += reply["ok"]
                for test in item["tests"] if reply["ok"] else ():
                    got = self.engine.ask(op="match", id=reply["id"], text=text_of(test, spaces == "compact"))
                    if got.get("complete") != test["valid"] and not (test["valid"] and item["id"] in self.OTHER_ORDER):
                        misjudged.append((item["id"], "valid" if test["valid"] else "invalid", got))
                if reply["ok"]:
                    self.engine.free(reply["id"])
            print(f"jsonschemabench, {spaces}: {compiled} of {len(items)} compiled")
            self.assertEqual(misjudged, [])
            self.assertGreaterEqual(compiled, 0.97 * len(items))

    def test_no_invalid_instance_of_the_official_suite_is_accepted(self):
        counts, accepted = collections.Counter(), []
        for item in items_of("jsts"):
            reply = self.engine.compile("json_schema", item["spec"])
            for test in item["tests"]:
                if not reply["ok"]:
                    counts["refused"] += 1
                    continue
                got = self.engine.match(reply["id"], text_of(test))
                counts["right" if got == test["valid"] else "valid and not in written form"] += 1
                if got and not test["valid"] and not any(name in item["id"] for name in self.DESCRIBED):
                    accepted.append((item["id"], test))
        print("JSON-Schema-Test-Suite:", dict(counts))
        self.assertEqual(accepted, [])

    def test_every_bomb_is_answered_in_time(self):
        for name in ("schema_bombs", "regex", "ebnf"):
            for item in items_of(name):
                if item.get("expect") != "bounded":
                    continue
                try:
                    self.verdicts(item, item["kind"], item["spec"])
                except Gone as gone:
                    self.fail(f"{item['id']}: {gone}")
        self.assertTrue(self.engine.match(self.engine.grammar("regex", "a+"), "aa"))
        self.assertEqual(self.wrong, [])


class Tokens(EngineCase):
    """Masks against all tokens one at a time, on grammars of every kind."""
    GRAMMARS = (
        ("regex", r"[a-z]+ ?(été|ä|日本)*", ["abc été", "abcä日本", "the ", "x"]),
        ("regex", r"(?s)a.*b", ["a\u00e9\U0001F600b", "ab", "a\n\nb"]),
        ("regex", r"(ab|abc|ba){2,5}[^a]", ["abab!", "abcbaé"]),
        ("regex", r"\d{4}-\d{2}-\d{2}", ["2024-12-10"]),
        ("choice", ["a", "ab", "abc", "yes", "été", "😀"], ["abc", "été", "😀"]),
        ("ebnf", 'root ::= "(" root ")" root | [ab]* \n', ["((ab)a)", "()()", ""]),
        ("ebnf", 'root ::= root "," item | item\nitem ::= "a"{1,3} | "日" "本"?', ["a,aa,日本", "aaa"]),
        ("lark", 'start: WORD ("," WORD)*\nWORD: /[a-c]+/', ["ab,ba,abc"]),
        ("json_schema", {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]},
         ['{"a": 12, "b": "x\\n"}', '{"a": -1}', '{"a": 10, "key": [null, {}]}']),
        ("json_schema", True, ['{"a": [1.5e+10, true], "": "\\u00e9é😀"}', "[[], {}]", "null"]),
        ("json_schema", {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object", "additionalProperties": {"maximum": 12}},
         ['{"a": 12}', '{"c": 0.5, "b": null}']),
        ("json_schema", {"type": "array", "items": {"type": "string", "maxLength": 3, "pattern": "^[a-é]"}, "minItems": 1}, ['["ab", "é\\""]']),
        ("json_schema", {"type": "array", "uniqueItems": True, "items": {"enum": ["a", "ab", 1]}}, ['["ab", "a", 1]', '[1, "a"]']),
        ("json_schema", {"type": "array", "uniqueItems": True, "items": {"type": ["string", "array"]}}, ['["ab", "a", [1, "a"], [1]]']),
        ("json_schema", {"enum": [1.5, "été", {"a": [None]}]}, ["1.5", '"été"', '{"a": [null]}']),
        ("json_schema", {"type": "number", "multipleOf": 0.5, "minimum": -1}, ["0.5", "100", "-0.5"]))

    def tries(self, grammar, prefix, tokens):
        """For each token whether it may come behind the prefix, asked for byte by byte."""
        start = list(b"".join(self.vocabulary[i] for i in prefix))
        requests = [{"op": "walk", "id": grammar, "tokens": start + list(self.vocabulary[i])} for i in tokens]
        for token, reply in zip(tokens, self.engine.ask_all(requests)):
            self.assertTrue(reply["ok"], reply)
            yield token, 0 not in reply["allowed"]

    def test_walks_agree_with_matches_on_any_tokenisation(self):
        for kind, spec, texts in self.GRAMMARS:
            grammar = self.engine.grammar(kind, spec)
            for text in texts:
                for changed in (text, text[:-1], text + "a", text[1:], text.replace("a", "b"), text + " ", text + '"'):
                    expected = self.engine.ask(op="match", id=grammar, text=changed)
                    for _ in range(4):
                        tokens = self.cut(changed)
                        reply = self.engine.walk(grammar, tokens)
                        where = (kind, spec, changed, tokens)
                        self.assertEqual(0 not in reply["allowed"], expected["accepted"], where)
                        self.assertEqual(reply["complete"], expected["complete"], where)
                self.assertTrue(self.engine.match(grammar, text), (kind, spec, text))

    def test_masks_hold_exactly_the_tokens_that_can_be_read(self):
        ordinary = [i for i, piece in enumerate(self.vocabulary) if piece is not None]
        special = [i for i, piece in enumerate(self.vocabulary) if piece is None]
        for kind, spec, texts in self.GRAMMARS:
            grammar = self.engine.grammar(kind, spec)
            for text in texts:
                tokens = self.cut(text)
                places = sorted({0, len(tokens), *self.random.sample(range(len(tokens) + 1), min(3, len(tokens) + 1))})
                for place in places:
                    prefix, where = tokens[:place], (kind, spec, text, tokens[:place])
                    readable = {token for token, fits in self.tries(grammar, prefix, ordinary) if fits}
                    allowed = self.engine.ask_all([{"op": "walk", "id": grammar, "tokens": prefix + [i]} for i in ordinary + special])
                    by_mask = {i for i, reply in zip(ordinary + special, allowed) if reply["allowed"][-1]}
                    complete = self.engine.walk(grammar, prefix)["complete"]
                    self.assertEqual(by_mask, readable | ({self.eos} if complete else set()), where)
                    self.assertEqual(allowed[0]["popcount"][place], len(readable), where)

    def test_forced_bytes_are_exactly_what_cannot_be_otherwise(self):
        for kind, spec, texts in self.GRAMMARS:
            grammar = self.engine.grammar(kind, spec)
            for text in texts:
                tokens = self.cut(text)
                reply = self.engine.walk(grammar, tokens, forced=True)
                data = text.encode()
                for place, forced in enumerate(reply["forced"]):
                    before = b"".join(self.vocabulary[i] for i in tokens[:place])
                    certain = bytes.fromhex(forced[0]) if forced else b""
                    where = (kind, spec, text, tokens[:place], certain)
                    self.assertTrue(data[len(before):].startswith(certain), where)
                    first = [byte for byte, fits in self.tries(grammar, tokens[:place], range(256)) if fits]
                    ends = self.engine.walk(grammar, tokens[:place])["complete"]
                    self.assertEqual(certain[:1], bytes(first) if len(first) == 1 and not ends else b"", where)
                    if forced:
                        written = b"".join(self.vocabulary[i] for i in forced[1])
                        self.assertTrue(certain.startswith(written), where)


if __name__ == "__main__":
    unittest.main()
