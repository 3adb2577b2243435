"""`espalier grammar explain`: the pictures of a constraint's automaton, raw and compressed."""
import pathlib
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as xml

from engine import BINARY, TOKENIZER


def explain(*arguments):
    return subprocess.run([BINARY, "grammar", "explain", *arguments], capture_output=True, text=True, timeout=60)


class Explain(unittest.TestCase):
    def sizes(self, dot):
        return {name: (int(states), int(edges)) for name, states, edges in re.findall(r'label="(\w+): (\d+) states, (\d+) edges"', dot)}

    def test_chains_without_a_choice_are_one_edge(self):
        drawn = explain("--regex", "(yes|no), sir!")
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        sizes = self.sizes(drawn.stdout)
        self.assertEqual(sizes["compressed"], (2, 2))
        self.assertEqual(sizes["raw"], (11, 11))
        self.assertIn('label="yes,␠sir!"', drawn.stdout)
        self.assertIn("doublecircle", drawn.stdout)

    def test_states_tell_how_many_tokens_may_come(self):
        drawn = explain("--choice", "true", "--choice", "null", "--tokenizer", str(TOKENIZER))
        self.assertRegex(drawn.stdout, r'c0 \[label="0: [1-9]\d* tokens"')

    def test_what_was_not_followed_any_more_says_so(self):
        drawn = explain("--json-schema", '{"type":"string"}', "--states", "5")
        self.assertIn("style=dashed", drawn.stdout)

    def test_a_picture_is_drawn_to_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            rules = pathlib.Path(folder) / "rules.gbnf"
            rules.write_text('root ::= "<" [a-z]+ ">"')
            for name, check in (("a.svg", lambda text: xml.fromstring(text)), ("a.dot", lambda text: self.sizes(text)["raw"])):
                path = pathlib.Path(folder) / name
                drawn = explain("--ebnf", str(rules), "--output", str(path))
                self.assertEqual(drawn.returncode, 0, drawn.stderr)
                self.assertIsNotNone(check(path.read_text(encoding="utf-8")))
            self.assertEqual(explain("--ebnf", str(rules), "--output", "a.png").returncode, 2)

    def test_a_long_title_is_cut_between_characters(self):
        for before in range(3):
            drawn = explain("--regex", "a" * before + "€" * 60)
            self.assertEqual(drawn.returncode, 0, drawn.stderr)
            self.assertRegex(drawn.stdout, 'label="' + "a" * before + '€{31,32}…"')

    def test_wrong_calls_say_what_would_work(self):
        for arguments, word in (((), "--regex"), (("--regex", "a", "--choice", "b"), "one of"), (("--regex", "(?=a)"), "look-ahead"),
                                (("--regex", "a", "--tokenizer", "/nowhere"), "/nowhere")):
            refused = explain(*arguments)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(word, refused.stderr)


if __name__ == "__main__":
    unittest.main()
