"""Constrained requests through the server: every spelling, valid outputs, the same ones jumped or not, and hostile constraints."""
import json
import re
import threading
import time
import unittest

from harness import Server, ServerCase, in_parallel, without_sanitizers
from hostile_constraints import CONSTRAINTS, large

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

    def test_a_tag_opens_a_form_in_free_text(self):
        call = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"], "additionalProperties": False}
        city = r'\{"city":"(Rome|Oslo)"\}'
        older = {"type": "structural_tag", "triggers": [" "], "structures": [{"begin": " in ", "schema": call, "end": ";"}]}
        tag = {"begin": " in ", "content": {"type": "json_schema", "json_schema": call}, "end": ";"}
        newer = {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": [" "], "tags": [tag]}}
        begins = self.server.post("/tokenize", {"prompt": " in", "add_special_tokens": False}).json["tokens"][0]
        texts = [self.text(structural_tag=one, max_new_tokens=40, logit_bias={str(begins): 9}) for one in (older, newer, json.dumps(newer))]
        self.assertEqual(texts, texts[:1] * 3)
        self.assertIn(" in {", texts[0])
        self.assertRegex(texts[0], rf"\A([^ ]* in {city};)*[^ ]*( [^;]*)?\Z")
        once = {**newer, "format": {**newer["format"], "at_least_one": True, "stop_after_first": True}}
        reply = self.server.post("/v1/completions", {"prompt": "A character:", "temperature": 0, "max_tokens": 200, "response_format": once})
        self.assertRegex(reply.json["choices"][0]["text"], rf"\A in {city};\Z")

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
        for fields in ({"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SHEET}}}, {"guided_json": SHEET},
                       {"structured_outputs": {"json": SHEET}}):
            self.assertEqual(self.text(**fields), expected)
            self.assertEqual(self.server.generate(text="A character:", sampling_params=GREEDY, **fields)["text"], expected)
        self.assertEqual(self.server.generate(text=["a", "b"], sampling_params=GREEDY, regex="x{3}")[1]["text"], "xxx")
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
                 ({"json_schema": {"properties": {"a": {"multipleOf": 0.1234567891}}}}, 422, "sampling_params.json_schema",
                  "#/properties/a/multipleOf"),
                 ({"json_schema": {"type": "thing"}}, 400, "sampling_params.json_schema", "#/type"),
                 ({"json_schema": "{"}, 400, "sampling_params.json_schema", "JSON"),
                 ({"json_schema": {"$ref": "#/nowhere"}}, 400, "sampling_params.json_schema", "#/nowhere"),
                 ({"ebnf": "root ::= missing"}, 400, "sampling_params.ebnf", "missing"),
                 ({"choices": []}, 400, "sampling_params.choices", "at least one"),
                 ({"regex": "a", "choices": ["a"]}, 400, "sampling_params.choices", "both"),
                 ({"regex": "a", "response_format": {"type": "json_object"}}, 400, "sampling_params.regex", "both"),
                 ({"guided_decoding": {"regex": "a"}}, 400, "sampling_params.guided_decoding", "response_format"),
                 ({"guided_json": {"$ref": "other.json"}}, 422, "sampling_params.guided_json", "nothing is fetched"),
                 ({"structural_tag": {"format": {"type": "token", "token": "x"}}}, 422, "sampling_params.structural_tag", "format token")]
        for constraint, status, field, word in cases:
            reply = self.server.post("/generate", native(**constraint))
            self.assertEqual(reply.status, status, (constraint, reply.body))
            error = reply.json["error"]
            self.assertEqual(error["param"], field, constraint)
            self.assertIn(word, error["message"])
            if status == 422:
                self.assertEqual(error["code"], "unsupported")
        segments = self.server.post("/generate", {"segments": ["a", {"name": "b"}], "regex": "a"})
        self.assertEqual((segments.status, segments.json["error"]["param"]), (400, "regex"))

    def test_a_form_that_nobody_would_read_is_refused(self):
        form = {"type": "json_schema", "json_schema": {"name": "s", "schema": SHEET}}
        message = [{"role": "user", "content": "x"}]
        for field, word, more in (("structured_outputs.type", "its members are json, regex", {"structured_outputs": form}),
                                  ("structured_outputs", "set one of json, regex", {"structured_outputs": {}}),
                                  ("response_format.type", "json_schema", {"response_format": {"type": "json"}})):
            reply = self.server.post("/v1/chat/completions", {"messages": message, **more})
            self.assertEqual((reply.status, reply.json["error"]["param"]), (400, field), reply.body)
            self.assertIn(word, reply.json["error"]["message"])

    def test_a_batch_may_ask_for_a_form_each(self):
        reply = self.server.generate(text=["a", "b"], sampling_params=[{**GREEDY, "regex": "x{3}"}, {**GREEDY, "choices": ["y"]}])
        self.assertEqual([one["text"] for one in reply], ["xxx", "y"])

    def test_what_was_saved_is_told(self):
        meta = self.server.generate(**native(json_schema=SHEET))["meta_info"]
        self.assertGreater(meta["forced_tokens"], 0)
        self.assertGreater(meta["forward_passes_saved"], 0)
        self.assertGreater(self.server.metric("espalier_constraint_passes_saved_total"), 0)


class Select(ServerCase):
    """choices with a choices_method: the same decision and numbers as scoring every choice by itself."""

    PROMPT, CHOICES = "The answer is", [" yes", " no", " perhaps not", " no way, never", "."]

    def select(self, method, **more):
        return self.server.generate(text=self.PROMPT, **more, sampling_params={"choices": self.CHOICES, "choices_method": method})

    def scored(self, text):
        """The log-probabilities of a text's tokens but the first, each with its id, by a request of its own."""
        meta = self.server.generate(text=text, return_logprob=True, logprob_start_len=0,
                                    sampling_params={"max_new_tokens": 0})["meta_info"]
        return [(value, token) for value, token, _ in meta["input_token_logprobs"]]

    def rows(self):
        prompt = self.server.post("/tokenize", {"prompt": self.PROMPT}).json["tokens"]
        rows = []
        for choice in self.CHOICES:
            both = self.scored(self.PROMPT + choice)
            healed = [token for _, token in both][:len(prompt)] != prompt
            rows.append(both[len(prompt) - healed:])
        return rows

    def test_the_numbers_are_those_of_scoring_each_choice_alone(self):
        self.server.post("/flush_cache", {})
        reply = self.select("token_length_normalized")
        meta, rows = reply["meta_info"], self.rows()
        self.assertEqual([[tuple(entry[:2]) for entry in row] for row in meta["input_token_logprobs"]], rows)
        means = [sum(v for v, _ in row) / len(row) for row in rows]
        for got, mean in zip(meta["normalized_prompt_logprobs"], means):
            self.assertAlmostEqual(got, mean, places=9)
        self.assertEqual(meta["choice"], means.index(max(means)))
        self.assertEqual(reply["text"], self.CHOICES[meta["choice"]])
        self.assertEqual(reply["output_ids"], [token for _, token in rows[meta["choice"]]])

    def test_the_greedy_method_goes_position_by_position(self):
        meta, rows = self.select("greedy_token_selection")["meta_info"], self.rows()
        values = [[v for v, _ in row] for row in rows]
        longest = max(map(len, values))
        matrix = [row + [sum(row) / len(row)] * (longest - len(row)) for row in values]
        left = list(range(len(matrix)))
        for column in range(longest):
            most = max(matrix[i][column] for i in left)
            left = [i for i in left if matrix[i][column] == most]
        self.assertEqual(meta["choice"], left[0])
        self.assertEqual(len(meta["greedy_logprob_matrix"]), len(rows))

    def test_the_unconditional_method_counts_what_the_prompt_adds(self):
        meta, rows = self.select("unconditional_likelihood_normalized")["meta_info"], self.rows()
        gains = []
        for row in rows:
            alone = self.server.generate(input_ids=[token for _, token in row], return_logprob=True, logprob_start_len=0,
                                         sampling_params={"max_new_tokens": 0})["meta_info"]["input_token_logprobs"]
            gains.append(sum(v - (u[0] or 0) for (v, _), u in zip(row, alone)) / len(row))
        for got, gain in zip(meta["normalized_unconditional_prompt_logprobs"], gains):
            self.assertAlmostEqual(got, gain, places=9)
        self.assertEqual(meta["choice"], gains.index(max(gains)))

    def test_the_prompt_is_computed_once(self):
        self.server.post("/flush_cache", {})
        text = "A long text about nothing in particular. " * 8
        tokens = self.server.post("/tokenize", {"prompt": text}).json["count"]
        before = self.server.metric("espalier_computed_tokens_total")
        self.server.generate(text=text, sampling_params={"choices": [f" number {i}" for i in range(10)],
                                                         "choices_method": "token_length_normalized"})
        self.assertLess(self.server.metric("espalier_computed_tokens_total") - before, tokens + 10 * 20)

    def test_what_makes_no_sense_is_refused(self):
        good = {"choices": ["a", "b"], "choices_method": "greedy_token_selection"}
        for body, field in (({"text": "x", "sampling_params": {**good, "choices_method": "best"}}, "choices_method"),
                            ({"text": "x", "sampling_params": {"choices_method": "greedy_token_selection"}}, "choices_method"),
                            ({"text": ["x", "y"], "sampling_params": good}, "choices_method"),
                            ({"text": "x", "sampling_params": {**good, "choices": ["a", ""]}}, "choices[1]")):
            reply = self.server.post("/generate", body)
            self.assertEqual(reply.status, 400, (body, reply.body))
            self.assertEqual(reply.json["error"]["param"], "sampling_params." + field)


class Segments(ServerCase):
    """Literals and holes in one request give what the holes give one by one."""

    def hole(self, name, **sampling):
        return {"name": name, "sampling_params": {"temperature": 0, "max_new_tokens": 12, **sampling}}

    def test_a_template_is_filled_as_if_each_hole_were_a_request(self):
        segments = ["Name: ", self.hole("name", regex="[A-Z][a-z]{2,8}"), "\nAge: ", self.hole("age", regex="[0-9]{2}"), " years",
                    ", likes ", self.hole("likes", ignore_eos=True), " and more."]
        reply = self.server.generate(segments=segments)
        ids = self.server.post("/tokenize", {"prompt": "Name: "}).json["tokens"]
        text, before, finished = "", [], []
        for i, segment in enumerate(segments[1:]):
            if isinstance(segment, str):
                if i > 3 and segment == ", likes ":
                    continue  # joined with the literal before it
                literal = " years, likes " if segment == " years" else segment
                ids += self.server.post("/tokenize", {"prompt": literal, "add_special_tokens": False}).json["tokens"]
                text += literal
            else:
                one = self.server.generate(input_ids=ids, sampling_params=segment["sampling_params"])
                self.assertEqual(reply["variables"][segment["name"]], one["text"])
                before.append(len(ids))
                finished.append(one["meta_info"]["finish_reason"])
                made = one["output_ids"]
                ids += made[:-1] if one["meta_info"]["finish_reason"]["type"] == "stop" else made
                text += one["text"]
        self.assertEqual(reply["text"], text)
        self.assertEqual([s["name"] for s in reply["segments"]], ["name", "age", "likes"])
        self.assertEqual(reply["meta_info"]["completion_tokens"], sum(s["completion_tokens"] for s in reply["segments"]))
        self.assertEqual([s["prompt_tokens"] for s in reply["segments"]], before)
        self.assertEqual([("forced_tokens" in s) for s in reply["segments"]], [True, True, False])
        for hole, ended in zip(reply["segments"], finished):
            self.assertEqual(hole["finish_reason"], ended)
            self.assertLess(hole["cached_tokens"], hole["prompt_tokens"])

    def test_a_hole_that_a_stop_string_ends_goes_on_without_it(self):
        free = self.server.generate(text="Once upon", sampling_params={"temperature": 0, "max_new_tokens": 12, "ignore_eos": True})
        stop = free["text"][5:7]
        reply = self.server.generate(segments=["Once upon", self.hole("a", stop=stop, ignore_eos=True), "|", self.hole("b")])
        first = reply["variables"]["a"]
        self.assertEqual(first, free["text"][:free["text"].index(stop)])
        self.assertEqual(reply["segments"][0]["finish_reason"], {"type": "stop", "matched": stop})
        self.assertEqual(reply["text"], first + "|" + reply["variables"]["b"])
        shown = self.server.post("/detokenize", {"tokens": reply["output_ids"]}).json["text"]
        self.assertEqual(shown, reply["text"])

    def test_a_stream_tells_segment_by_segment(self):
        body = {"segments": ["x", self.hole("a"), " then ", self.hole("b")]}
        whole = self.server.generate(**body)
        events = self.server.post("/generate", {**body, "stream": True}).events
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual("".join(e["delta"] for e in events[:-2]), whole["text"])
        self.assertEqual("".join(e["delta"] for e in events[:-2] if e["segment"] == "b"), whole["variables"]["b"])
        self.assertEqual(events[-2]["variables"], whole["variables"])

    def test_what_makes_no_sense_names_the_segment(self):
        for segments, field in (([], "segments"), ([self.hole("a")], "segments"), (["x"], "segments"), (["x", 7], "segments[1]"),
                                (["x", {"sampling_params": {}}], "segments[1].name"),
                                (["x", self.hole("a"), self.hole("a")], "segments[2].name"),
                                (["x", {"name": "a", "regex": "b"}], "segments[1].regex"),
                                (["x", self.hole("a", regex="(")], "segments[1].sampling_params.regex"),
                                (["x", self.hole("a", n=2)], "segments[1].sampling_params.n")):
            reply = self.server.post("/generate", {"segments": segments})
            self.assertEqual(reply.status, 400, (segments, reply.body))
            self.assertEqual(reply.json["error"]["param"], field)
        both = self.server.post("/generate", {"text": "x", "segments": ["x", self.hole("a")]})
        self.assertEqual(both.json["error"]["param"], "text")
        thinking = self.server.post("/generate", {"require_reasoning": True, "segments": ["x", self.hole("a")]})
        self.assertEqual((thinking.status, thinking.json["error"]["param"]), (400, "require_reasoning"))
        long = self.server.post("/generate", {"segments": ["x", self.hole("a"), "word " * 3000, self.hole("b")]})
        self.assertEqual((long.status, long.json["error"]["code"]), (400, "context_length_exceeded"))


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


class Tight(ServerCase):
    """A limit that is met in the middle of an answer is told of the field that asked for the form."""

    FLAGS = ("--grammar-max-states", "1000")
    LARGE = "[a-z]*(a[a-z]{300}|b[a-z]{301}|c[a-z]{302}|d[a-z]{303})"  # a few states more with every byte

    def test_the_field_is_named(self):
        hole = {"name": "code", "sampling_params": {**GREEDY, "max_new_tokens": 400, "regex": self.LARGE}}
        form = {"type": "json_schema", "json_schema": {"schema": {"type": "string", "pattern": f"^{self.LARGE}$"}}}
        message = [{"role": "user", "content": "x"}]
        for route, body, field in (("/generate", native(regex=self.LARGE, max_new_tokens=400), "sampling_params.regex"),
                                   ("/generate", {"segments": ["a", hole]}, "segments[1].sampling_params.regex"),
                                   ("/v1/completions", {"prompt": "x", "temperature": 0, "max_tokens": 400, "guided_regex": self.LARGE}, "guided_regex"),
                                   ("/v1/chat/completions", {"messages": message, "max_tokens": 400, "temperature": 0, "response_format": form},
                                    "response_format.json_schema.schema")):
            reply = self.server.post(route, body)
            self.assertEqual(reply.status, 400, (route, reply.body))
            error = reply.json["error"]
            self.assertEqual((error["param"], error["code"]), (field, "grammar_too_complex"))
            self.assertTrue(error["message"].startswith(field + ": "), error["message"])


class Hostile(ServerCase):
    """Each is refused or bounded within seconds, the server's memory stays where it is, and others go on."""

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
        self.forget_peak()
        thread = threading.Thread(target=bystander)
        thread.start()
        try:
            for constraint in CONSTRAINTS:
                begin = time.monotonic()
                body = native(**{**constraint, "max_new_tokens": 20})
                while (reply := self.server.post("/generate", body)).status == 503 and b"being compiled; try again" in reply.body:
                    time.sleep(0.1)  # the one before still holds the compiler
                took = time.monotonic() - begin
                shown = str(constraint)[:60]
                self.assertIn(reply.status, (200, 400, 413, 422), (shown, reply.body[:300]))
                self.assertLess(took, 20, shown)
                print(f"{took:6.2f} s  {reply.status}  {shown}")
        finally:
            stop.set()
            thread.join()
        most = self.memory("VmHWM") - before
        print(f"{len(gaps)} other requests, the slowest took {max(gaps):.2f} s; memory grew by {(self.memory() - before) >> 20} MiB, "
              f"by {most >> 20} at most")
        self.assertLess(most, 320 << 20)

    @without_sanitizers
    def test_a_large_schema_is_there_once_for_all_prompts(self):
        schema = large(6_000_000)
        schema["properties"]["member0"] = {"oneOf": [{"type": "nothing"}]}  # is refused when all has been read
        self.server.generate(**native(regex="a"))
        before = self.memory()
        self.forget_peak()
        for body in (dict(text=["x"] * 40, sampling_params={**GREEDY, "json_schema": schema}),
                     dict(text=["x"] * 40, sampling_params={**GREEDY, "json_schema": json.dumps(schema)})):
            reply = self.server.post("/generate", body)
            self.assertIn(reply.status, (400, 422), reply.body[:300])
        self.assertLess(self.memory("VmHWM") - before, 320 << 20)

    def memory(self, field="VmRSS"):
        with open(f"/proc/{self.server.process.pid}/status", encoding="ascii") as status:
            return int(re.search(field + r":\s+(\d+) kB", status.read()).group(1)) << 10

    def forget_peak(self):
        with open(f"/proc/{self.server.process.pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")


if __name__ == "__main__":
    unittest.main()
