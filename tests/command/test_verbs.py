"""The command as a whole: help, versions, words that are not known, exit codes; memory that is not there."""
import json
import resource
import unittest

from program import MODEL, espalier, without_sanitizers

VERBS = ("serve", "run", "program", "bench", "inspect", "pull", "list", "rm", "ps", "show", "plan", "quantize", "doctor", "completion", "man")
MIB = 1 << 20


class Words(unittest.TestCase):
    def test_help_names_every_verb_and_each_verb_has_its_own(self):
        whole = espalier("help")
        self.assertEqual((whole.code, whole.out), (0, espalier("--help").out))
        for verb in VERBS:
            self.assertIn(f"\n  {verb} ", whole.out)
            self.assertEqual(espalier("help", verb).out, espalier(verb, "--help").out)
        self.assertIn("--input-len", espalier("help", "bench", "latency").out)

    def test_forks_of_one_prefix_say_what_sequences_with_copies_of_it_say(self):
        ended = espalier("bench", "forks", MODEL, "--forks", "4", "--prefix-len", "300", "--output-len", "8", "--rounds", "1", "--json")
        self.assertEqual(ended.code, 0, ended.err)
        self.assertEqual([json.loads(line)["way"] for line in ended.out.splitlines()], ["shared", "copies", "alone"])

    def test_what_is_measured_is_told_beside_the_limits_of_what_computes(self):
        for device, told in (("cpu", "threads"), ("emu", "emu (emulated device)")):
            ended = espalier("bench", "latency", MODEL, "--device", device, "--input-len", "4", "--output-len", "2", "--repeat", "1")
            self.assertEqual(ended.code, 0, ended.err)
            machine, limits, latency = ended.out.splitlines()
            self.assertIn(told, machine)
            self.assertEqual("device's memory" in limits, device == "emu", limits)
            self.assertIn("% of memory", latency)

    def test_help_of_serve_stands_in_sections_with_units_and_defaults(self):
        text = espalier("help", "serve").out
        for section in ("Model", "Compute and memory", "Scheduling", "Constraints", "Prefix cache", "HTTP", "Keys", "Limits", "Times", "Configuration"):
            self.assertIn(f"\n{section}:\n", text)
        self.assertIn("--port PORT (default 30000)", text)
        self.assertIn("--shutdown-timeout SECONDS (default 30)", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 120)

    def test_without_words_it_says_what_to_type(self):
        ended = espalier()
        self.assertEqual((ended.code, ended.out), (2, ""))
        for words in ("espalier run ", "espalier serve MODEL ", "espalier help "):
            self.assertIn(words, ended.err)
        self.assertLess(len(ended.err.splitlines()), 10)

    def test_the_version_is_one_line(self):
        for word in ("--version", "-V", "version"):
            ended = espalier(word)
            self.assertRegex(ended.out, r"\Aespalier \d+\.\d+\.\d+\n\Z")

    def test_what_is_not_known_gets_a_suggestion(self):
        for words, wanted in ((["srve"], "did you mean serve?"), (["insepct", "x"], "did you mean inspect?"),
                              (["serve", "--prot", "3"], "--prot is not known here, did you mean --port?"),
                              (["bench", "latencyy"], "did you mean latency?"), (["run", MODEL, "x", "--temprature", "0"], "--temperature")):
            ended = espalier(*words)
            self.assertEqual((ended.code, ended.out), (2, ""), ended)
            self.assertIn(wanted, ended.err)

    def test_help_of_help_is_help(self):
        self.assertEqual(espalier("help", "help").out, espalier("help").out)
        self.assertEqual(espalier("help", "help", "serve").out, espalier("help", "serve").out)

    def test_help_takes_verbs_and_nothing_else(self):
        for words, wanted in ((["serve", "nope"], "there is no espalier serve nope"), (["run", "--temperature"], "no espalier run --temperature"),
                              (["bench", "latencyy"], "there is no espalier bench latencyy, did you mean latency?"),
                              (["bench", "latency", "x"], "there is no espalier bench latency x"), (["srve"], "did you mean serve?")):
            ended = espalier("help", *words)
            self.assertEqual((ended.code, ended.out), (2, ""), ended)
            self.assertIn(wanted, ended.err)

    def test_a_model_that_is_not_there_is_3_in_every_verb(self):
        for words in (("run", "/nowhere.gguf", "x"), ("inspect", "/nowhere.gguf"), ("bench", "latency", "/nowhere.gguf"),
                      ("serve", "/nowhere.gguf", "--port", "0")):
            self.assertEqual(espalier(*words).code, 3, words)

    def test_a_port_that_cannot_be_bound_is_5(self):
        ended = espalier("serve", MODEL, "--host", "192.0.2.1")
        self.assertEqual(ended.code, 5, ended)


@without_sanitizers
class Memory(unittest.TestCase):
    def test_at_every_limit_on_addresses_it_answers_or_says_so_with_4(self):
        codes = []
        for mib in range(60, 700, 20):  # with less its libraries give up before main begins
            ended = espalier("run", MODEL, "hello", "-n", "2", "--threads", "2", limits={resource.RLIMIT_AS: mib * MIB})
            if "error while loading shared libraries" in ended.err:
                continue  # less than the program itself
            codes.append(ended.code)
            self.assertIn(ended.code, (0, 4), (mib, ended))
            if ended.code == 4:
                self.assertIn("espalier: ", ended.err)
        self.assertEqual(codes[-1], 0, "700 MiB are enough for the smallest model")

    def test_a_pool_that_was_asked_for_and_does_not_fit_is_refused(self):
        ended = espalier("run", MODEL, "hello", "--max-total-tokens", "8000000", limits={resource.RLIMIT_AS: 1024 * MIB})
        self.assertEqual(ended.code, 4, ended)
        self.assertIn("a smaller --max-total-tokens would fit", ended.err)


if __name__ == "__main__":
    unittest.main()
