"""Constrained requests through the server: every spelling, valid outputs, the same ones jumped or not, and hostile constraints."""
import json
import re
import threading
import time
import unittest

from harness import Server, ServerCase, in_parallel, without_sanitizers

try:
    import jsonschema
except ImportError:
    jsonschema = None

SHEET = {"type": "object", "additionalProperties": False,
         "properties": {"name": {"type": "string", "pattern": "^[A-Za-z]{1,12}$"}, "house": {"enum": ["Gryffindor", "Slytherin"]},
                        "alive": {"type": "boolean"}, "wand": {"$ref": "#/$defs/wand"}},
         "required": ["name", "house", "alive", "wand"],
         "$defs": {"wand": {"type": "object", "properties": {"wood": {"enum": ["oak", "elm"]}, "inches": {"type": "integer",
                            "minimum": 5, "maximum": 15}}, "required": ["wood", "inches"], "additionalProperties": False}}}
GREEDY = {"temperature": 0, "max_new_tokens": 200}


def native(**constraint):
    return {"text": "A character:", "sampling_params": {**GREEDY, **constraint}}


def valid(text, schema=SHEET):
    value = json.loads(text)
    if jsonschema:
        jsonschema.validate(value, schema)
    return value


class Constraints(ServerCase):
    def text(self, **constraint):
        return self.server.generate(**native(**constraint))["text"]

    def test_the_output_has_the_form_that_was_asked_for(self):
        self.assertRegex(self.text(regex=r"[0-9]{3}-[a-f]{2}"), r"\A[0-9]{3}-[a-f]{2}\Z")
        self.assertIn(self.text(choices=["yes", "no", "not at all"]), ["yes", "no", "not at all"])
        self.assertRegex(self.text(ebnf='root ::= "<" [a-z]{2,4} ">"'), r"\A<[a-z]{2,4}>\Z")
        self.assertRegex(self.text(grammar='start: "<" /[a-z]{2,4}/ ">"'), r"\A<[a-z]{2,4}>\Z")
        valid(self.text(json_schema=SHEET))
        valid(self.text(json_schema=json.dumps(SHEET), json_whitespace="flexible", json_closing=True))
        self.assertIsInstance(json.loads(self.text(json_schema="$$ANY$$", json_closing=True)), dict)

    def test_every_clients_spelling_gives_the_same(self):
        expected = self.text(json_schema=SHEET)
        body = {"prompt": "A character:", "temperature": 0, "max_tokens": 200}
        for fields in ({"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SHEET, "strict": True}}},
                       {"response_format": {"type": "json_object", "schema": SHEET}}, {"guided_json": SHEET},
                       {"guided_json": json.dumps(SHEET)}, {"structured_outputs": {"json": SHEET}}, {"json_schema": SHEET}):
            reply = self.server.post("/v1/completions", {**body, **fields})
            self.assertEqual(reply.status, 200, reply.body)
            self.assertEqual(reply.json["choices"][0]["text"], expected)
            self.assertEqual(reply.json["choices"][0]["finish_reason"], "stop")
        chat = self.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "A character"}], "temperature": 0,
                                "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SHEET}}}).json
        valid(chat["choices"][0]["message"]["content"])

    def test_streams_choices_and_logprobs_are_those_of_the_whole_reply(self):
        body = {"prompt": "A character:", "max_tokens": 200, "seed": 7, "n": 3, "logprobs": 1, "guided_json": SHEET}
        whole = self.server.post("/v1/completions", body).json
        parts = {}
        for event in self.server.post("/v1/completions", {**body, "stream": True}).events[:-1]:
            for choice in event["choices"]:
                parts[choice["index"]] = parts.get(choice["index"], "") + choice["text"]
        for choice in whole["choices"]:
            valid(choice["text"])
            self.assertEqual(parts[choice["index"]], choice["text"])
            values = choice["logprobs"]["token_logprobs"]
            self.assertTrue(all(value <= 0 for value in values), "of the model's own distribution, forced tokens too")
            self.assertEqual("".join(choice["logprobs"]["tokens"][:-1]), choice["text"])

    def test_stop_strings_end_the_text_also_inside_what_is_forced(self):
        reply = self.server.generate(**native(json_schema=SHEET, stop=["house"]))
        self.assertTrue(reply["text"].endswith('","'), reply["text"])
        self.assertEqual(reply["meta_info"]["finish_reason"], {"type": "stop", "matched": "house"})

    def test_an_output_that_is_too_short_is_cut_or_closed(self):
        cut = self.server.generate(**native(json_schema=SHEET, max_new_tokens=12))
        self.assertEqual(cut["meta_info"]["finish_reason"]["type"], "length")
        with self.assertRaises(ValueError):
            json.loads(cut["text"])
        for most in range(1, 40, 3):
            closed = self.server.generate(**native(json_schema=SHEET, max_new_tokens=most, json_closing=True))
            valid(closed["text"])
            self.assertTrue(closed["meta_info"]["json_closed"])

    def test_an_object_that_lists_its_properties_has_no_others_unless_asked(self):
        schema = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9, "minimum": 0}}, "required": ["a"]}
        self.assertRegex(self.text(json_schema=schema), r'\A\{"a":[0-9]\}\Z')
        comma = self.server.post("/tokenize", {"prompt": ",", "add_special_tokens": False}).json["tokens"][0]
        body = {"prompt": "x", "temperature": 0, "max_tokens": 8, "logit_bias": {str(comma): 50},
                "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": False}}}
        self.assertIn(',"', self.server.post("/v1/completions", body).json["choices"][0]["text"])

    def test_what_cannot_be_honoured_names_field_and_place(self):
        cases = [({"regex": "a(?=b)"}, 422, "sampling_params.regex", "byte 1"), ({"regex": "a("}, 400, "sampling_params.regex", "group"),
                 ({"json_schema": {"properties": {"a": {"uniqueItems": True}}}}, 422, "sampling_params.json_schema",
                  "#/properties/a/uniqueItems"),
                 ({"json_schema": {"type": "thing"}}, 400, "sampling_params.json_schema", "#/type"),
                 ({"json_schema": "{"}, 400, "sampling_params.json_schema", "JSON"),
                 ({"json_schema": {"$ref": "#/nowhere"}}, 400, "sampling_params.json_schema", "#/nowhere"),
                 ({"ebnf": "root ::= missing"}, 400, "sampling_params.ebnf", "missing"),
                 ({"choices": []}, 400, "sampling_params.choices", "at least one"),
                 ({"regex": "a", "choices": ["a"]}, 400, "sampling_params.choices", "both")]
        for constraint, status, field, word in cases:
            reply = self.server.post("/generate", native(**constraint))
            self.assertEqual(reply.status, status, (constraint, reply.body))
            error = reply.json["error"]
            self.assertEqual(error["param"], field, constraint)
            self.assertIn(word, error["message"])

    def test_a_batch_may_ask_for_a_form_each(self):
        reply = self.server.generate(text=["a", "b"], sampling_params=[{**GREEDY, "regex": "x{3}"}, {**GREEDY, "choices": ["y"]}])
        self.assertEqual([one["text"] for one in reply], ["xxx", "y"])

    def test_what_was_saved_is_told(self):
        meta = self.server.generate(**native(json_schema=SHEET))["meta_info"]
        self.assertGreater(meta["forced_tokens"], 0)
        self.assertGreater(meta["forward_passes_saved"], 0)
        self.assertGreater(self.server.metric("espalier_constraint_passes_saved_total"), 0)


class Together(unittest.TestCase):
    """Outputs are the same bits whatever runs beside them and whether forced text is jumped."""

    REQUESTS = [native(json_schema=SHEET), native(json_schema=SHEET, temperature=1, sampling_seed=5),
                native(regex="(yes|no), (because|although) [a-z ]{3,9}", temperature=1.5, sampling_seed=6),
                native(ebnf='root ::= "(" root ")" | [0-9]', temperature=1, sampling_seed=7, max_new_tokens=30),
                {**native(json_schema=SHEET, temperature=1, sampling_seed=8), "return_logprob": True},
                native(choices=["one", "two", "three"], temperature=1, sampling_seed=9),
                native(json_schema={**SHEET, "title": "another"}, json_whitespace="flexible", sampling_seed=10)]

    def outputs(self, *flags, together):
        with Server(*flags) as server:
            def ask(i):
                reply = server.generate(**self.REQUESTS[i % len(self.REQUESTS)])
                return reply["output_ids"], reply["meta_info"]["finish_reason"], reply["meta_info"].get("output_token_logprobs")
            count = len(self.REQUESTS) * (5 if together else 1)
            return in_parallel(count, ask) if together else [ask(i) for i in range(count)]

    def test_outputs_do_not_depend_on_jumps_batches_or_drafts(self):
        alone = self.outputs("--disable-jump-forward", together=False)
        for flags in ((), ("--disable-jump-forward",), ("--speculative-algorithm", "tree"), ("--chunked-prefill-size", "16")):
            for i, output in enumerate(self.outputs(*flags, together=True)):
                self.assertEqual(output, alone[i % len(alone)], flags)


class Hostile(ServerCase):
    """Each is refused or bounded within seconds, the server's memory stays where it is, and others go on."""

    def deep(depth):
        schema = {"type": "null"}
        for _ in range(depth):
            schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
        return schema

    def nested_one_of(depth):
        schema = {"type": "integer"}
        for _ in range(depth):
            schema = {"oneOf": [{"type": "object", "properties": {"a": schema, f"b{i}": {}}} for i in range(6)]}
        return schema

    CONSTRAINTS = [{"regex": "(a*)*b"}, {"regex": "a{1,100000000}"}, {"regex": "((a{1,1000}){1,1000}){1,1000}"},
                   {"regex": "(" * 50000 + "a" + ")" * 50000}, {"regex": "[ab]*a[ab]{200}"}, {"regex": "(.*a.*b.*c.*d){30}"},
                   {"json_schema": {"$ref": "#"}}, {"json_schema": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"},
                                                                                                 "b": {"$ref": "#/$defs/a"}}}},
                   {"json_schema": deep(300)}, {"json_schema": nested_one_of(6)},
                   {"json_schema": {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(20000)}}},
                   {"json_schema": {"enum": ["x" * 100 + str(i) for i in range(30000)]}},
                   {"json_schema": {"type": "string", "pattern": "^(([a-z]+)+)+$", "maxLength": 100000000}},
                   {"json_schema": {"type": "array", "items": {"type": "array"}, "minItems": 1000000}},
                   {"ebnf": "root ::= " + " ".join(f"r{i}" for i in range(5000)) + "\n" +
                    "\n".join(f'r{i} ::= "a"? r{i + 1 if i < 4999 else 0}? "b"' for i in range(5000))},
                   {"ebnf": 'root ::= root root | root root root | "a"'}, {"ebnf": "root ::= " + "(" * 60000},
                   {"ebnf": 'root ::= (("a"* )*)*'}, {"choices": ["x" * 1000 + str(i) for i in range(3000)]}]

    @without_sanitizers
    def test_hostile_constraints_are_bounded_and_hold_up_nobody(self):
        gaps, stop = [], threading.Event()

        def bystander():
            while not stop.is_set():
                begin = time.monotonic()
                self.server.generate(text="hello", sampling_params={"max_new_tokens": 1, "temperature": 0})
                gaps.append(time.monotonic() - begin)

        self.server.generate(**native(regex="a"))
        before = self.memory()
        thread = threading.Thread(target=bystander)
        thread.start()
        try:
            for constraint in self.CONSTRAINTS:
                begin = time.monotonic()
                reply = self.server.post("/generate", native(**{**constraint, "max_new_tokens": 20}))
                took = time.monotonic() - begin
                shown = str(constraint)[:60]
                self.assertIn(reply.status, (200, 400, 413, 422), (shown, reply.body[:300]))
                self.assertLess(took, 20, shown)
                print(f"{took:6.2f} s  {reply.status}  {shown}")
        finally:
            stop.set()
            thread.join()
        print(f"{len(gaps)} other requests, the slowest took {max(gaps):.2f} s; memory grew by {(self.memory() - before) >> 20} MiB")
        self.assertLess(self.memory() - before, 600 << 20)

    def memory(self):
        with open(f"/proc/{self.server.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) << 10


if __name__ == "__main__":
    unittest.main()
