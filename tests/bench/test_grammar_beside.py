"""bench/grammar_beside.py without any peer: how it holds engines to limits, counts forced tokens and sums up pairs."""
import importlib.util
import pathlib
import shlex
import subprocess
import sys
import time
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
from grammar_peers import figures, table, witnesses  # noqa: E402: behind the path
from grammar_peers.engines import Engine, Failed  # noqa: E402
from grammar_peers.trial import Trial, Walk, attempt, jumped  # noqa: E402

# Answers compile by its spec: hangs, dies, grows, or says that it is well; a walk allows every token and forces the second.
ENGINE = r"""
import json, os, sys, time
for line in sys.stdin:
    request, reply = json.loads(line), {"ok": True, "id": 1, "cpu_micros": 2000.0}
    spec, count = request.get("spec"), len(request.get("tokens", ()))
    if spec == "hang": time.sleep(60)
    if spec == "die": os._exit(3)
    if spec == "grow": kept = bytearray(os.urandom(1 << 20) * 200); time.sleep(60)
    if spec == "refuse": reply = {"ok": False, "error": "no", "cpu_micros": 1.0}
    if request["op"] == "walk":
        reply.update(allowed=[1] * count, complete=True, cpu_micros=[1.0] * count,
                     forced=[[None, [request["tokens"][1]]] if i == 1 else 0 for i in range(count)])
    print(json.dumps(reply), flush=True)
"""
LIMITS = {"compile_seconds": 1.0, "walk_seconds": 5.0}


def item(spec):
    return {"kind": "regex", "spec": spec, "tests": [{"valid": True, "tokens": [5, 6, 7]}]}


class Engines(unittest.TestCase):
    def setUp(self):
        command = shlex.join([sys.executable, "-c", ENGINE])
        self.engine = Engine("toy", command, [{"op": "tokenizer"}], {"seconds_to_start": 60, "mebibytes": 100})
        self.addCleanup(self.engine.stop)

    def test_one_that_hangs_dies_or_grows_is_ended_and_the_next_question_is_answered(self):
        for spec, reason in (("hang", "time limit"), ("die", "process ended"), ("grow", "memory limit")):
            limits = LIMITS | {"compile_seconds": 30.0} if spec == "grow" else LIMITS
            began = time.monotonic()
            trial = attempt(self.engine, item(spec), "cpu_micros", limits)
            self.assertEqual((trial.compiled, trial.failure), (False, reason))
            self.assertLess(time.monotonic() - began, 60)
            self.assertTrue(attempt(self.engine, item("well"), "cpu_micros", LIMITS | {"compile_seconds": 30.0}).compiled)

    def test_one_that_cannot_be_started_says_so(self):
        nobody = Engine("nobody", "/nowhere/program", [], {"seconds_to_start": 1, "mebibytes": 100})
        self.assertRaises((Failed, OSError), nobody.start)

    def test_a_trial_has_its_times_verdict_and_forced_tokens(self):
        trial = attempt(self.engine, item("well"), "cpu_micros", LIMITS | {"compile_seconds": 30.0})
        self.assertEqual((trial.compile_ms, trial.failure), (2.0, ""))
        self.assertEqual(trial.walks, [Walk(True, True, 3, [1.0] * 3, [1.0] * 3, forced=(1,))])
        refused = attempt(self.engine, item("refuse"), "cpu_micros", LIMITS)
        self.assertEqual((refused.compiled, refused.failure, refused.error), (False, "", "no"))


class Figures(unittest.TestCase):
    def test_a_forced_run_is_jumped_over_and_counts_while_it_is_the_text_s_own(self):
        tokens = [1, 2, 3, 4, 5, 6]
        self.assertEqual(jumped(tokens, [[None, [1, 2, 3]], [None, [2, 3]], [None, [3]], 0, [None, [5, 9]], 0]), ((0, 1, 2, 4), 1))
        self.assertEqual(jumped(tokens, [0, 0, 0, 0, 0, [None, [6, 7]]]), ((5,), 0))  # what comes behind the text is not known

    def test_pairs_are_over_what_both_compile_and_forced_tokens_over_what_both_accept(self):
        def trial(compiled, time, forced, accepted=True):
            return Trial(compiled, compile_ms=time, walks=[Walk(True, accepted, 10, [time] * 10, [1.0] * 10, tuple(range(forced)))])
        ours = [trial(True, 1.0, 4), trial(True, 100.0, 9), trial(True, 3.0, 7)]
        theirs = [trial(True, 2.0, 2), trial(False, 0.0, 0), trial(True, 6.0, 0, accepted=False)]
        pair = figures.of_pair([{"id": id} for id in "abc"], ours, theirs)
        self.assertEqual((pair["items"], pair["texts"]), (2, 1))
        self.assertEqual((pair["ratios"]["compile_ms max"], pair["ratios"]["forced"]), (0.5, 2.0))
        self.assertIn("2.000", "\n".join(table.pair_rows({"peer": pair})))

    def test_items_in_which_the_peer_forces_more_are_listed_the_largest_shortfall_first(self):
        def trial(*forced):
            return Trial(True, walks=[Walk(True, True, 10, [1.0], [1.0], tuple(range(count))) for count in forced])
        items = [{"id": id} for id in ("one", "more", "three", "not shared")]
        pair = figures.of_pair(items, [trial(2, 2), trial(5), trial(0, 1), trial(1)], [trial(3, 2), trial(4), trial(1, 3), None])
        self.assertEqual(pair["forced_short"], [(3, 1, 4, "three"), (1, 4, 5, "one")])
        rows = table.short_rows({"peer": pair}, 1)
        self.assertIn("4 tokens in all", rows[0])
        self.assertEqual((len(rows), rows[1].split()[-1]), (2, "three"))

    def test_what_was_not_asked_does_not_count(self):
        items = [{"id": "a"}, {"id": "b"}, {"id": "c", "expect": "reject"}]
        wrong = Walk(True, False, 1, [3.0], [1.0])
        made = figures.of_engine(items, [Trial(True, compile_ms=2.0, walks=[wrong]), None, Trial(False)], 1.0)
        self.assertEqual((made["slowest_mask_us"], made["slowest_compile_ms"], made["wrong_verdicts"]), ([(3.0, "a")], [(2.0, "a")], ["a"]))
        self.assertEqual((made["asked"], made["compiled"], made["to_refuse"], made["refused_rightly"]), (1, 1, 1, 1))
        self.assertIn("100.0 % of 1", "\n".join(table.engine_rows({"espalier": made})))


class Witnesses(unittest.TestCase):
    def find(self, spec, document, token):
        writing = witnesses.Writing(False)
        text = writing.text(document)
        begin = text.index(token)
        return witnesses.witness(witnesses.Schema(spec, [document]), document, writing, begin, begin + len(token))

    def setUp(self):
        if importlib.util.find_spec("jsonschema") is None:
            self.skipTest("jsonschema is not installed")

    def test_a_member_that_may_come_later_is_a_witness_against_its_name(self):
        spec = {"properties": {"ab": {"type": "string"}, "ac": {"type": "string"}}, "required": ["ab", "ac"], "additionalProperties": False}
        document = {"ab": "x", "ac": "y"}
        self.assertEqual(self.find(spec, document, "b"), {"ac": "y", "ab": "x"})
        self.assertIsNone(self.find(spec, document, 'c": '))  # ab is there already

    def test_other_members_and_other_values_are_witnesses_where_the_schema_takes_them(self):
        spec = {"properties": {"kind": {"enum": ["one", "once"]}}, "required": ["kind"]}
        self.assertEqual(self.find(spec, {"kind": "one"}, "nd"), {"ki~": None, "kind": "one"})
        self.assertEqual(self.find(spec, {"kind": "one"}, "e"), {"kind": "once"})
        spec["additionalProperties"] = False
        self.assertIsNone(self.find(spec, {"kind": "one"}, "nd"))
        self.assertIsNone(self.find(spec, {"kind": "one"}, "on"))

    def test_deep_inside_lists_too(self):
        spec = {"items": {"items": {"enum": ["ab", "ac"]}}}
        self.assertEqual(self.find(spec, [["ac"], ["ac", "ab"]], 'b"'), [["ac"], ["ac", "ac"]])

    def test_members_that_the_schema_lists_beside_it_are_tried_before_others(self):
        crowd = {f"n{i}": {"type": "string", "enum": ["x"]} for i in range(witnesses.MOST_TRIES)}
        shut = {"properties": {"ab": {}, "zz": {"type": "string", "maxLength": 0}}, "additionalProperties": False}
        spec = {"properties": {"crowd": {"properties": crowd}, "shut": shut}}
        self.assertEqual(self.find(spec, {"shut": {"ab": 1}}, "ab"), {"shut": {"zz": "", "ab": 1}})

    def test_tokens_are_counted_by_who_forces_them_and_whether_there_is_a_witness(self):
        spec = {"properties": {"ab": {}, "cd": {}}, "additionalProperties": False, "required": ["ab"]}
        document = {"ab": 0}
        places = [(0, 2), (2, 4), (4, 8)]  # {" ab ": 0
        counts, alone = witnesses.judge({"id": "one", "spec": spec}, [(document, places, {1}, {1, 2})], witnesses.Writing(False),
                                        lambda who, text: who == "ours")
        self.assertEqual(counts, {("both", True): 1, ("theirs", True): 1})
        self.assertEqual([(who, "theirs accepts" in other, token) for who, other, _, _, token in alone],
                         [("both", True, "ab"), ("theirs", True, '": 0')])
        rows = table.witness_rows({"peer": {"forced_by_schema": {"counts": [["both", False, 9], ["ours", False, 1]], "alone": alone}}})
        self.assertIn("10 to 9, 1.1111", "\n".join(rows))

    def test_spans_are_those_of_characters(self):
        self.assertEqual(witnesses.spans("aéb", [1, 1, 1, 1]), [(0, 1), (1, 1), (1, 2), (2, 3)])


class Program(unittest.TestCase):
    def test_help_says_what_it_needs(self):
        done = subprocess.run([sys.executable, BENCH / "grammar_beside.py", "--help"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--tokenizer", done.stdout)


if __name__ == "__main__":
    unittest.main()
