"""bench/beside_peers.py without any peer or model: what it says of itself, and how it sums up rounds."""
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
from peers import report, rounds  # noqa: E402: behind the path
from peers.runner import Failed, Runner  # noqa: E402


def samples(ours, theirs, others=0.0):
    return {"espalier": rounds.Sample({"tok/s": ours}), "peer": rounds.Sample({"tok/s": theirs}, others)}


class Contender:
    def __init__(self, name, log, fails=False):
        self.name, self.log, self.fails = name, log, fails

    def measure(self):
        self.log.append(self.name)
        if self.fails:
            raise Failed("illegal instruction")
        return {"tok/s": 10.0}


class Rounds(unittest.TestCase):
    def test_ratios_are_taken_within_each_round_and_leave_noisy_ones_out(self):
        seen = [samples(10, 5), samples(30, 10), samples(10, 100, others=0.5)]
        ratio = rounds.ratio(seen, "tok/s", "peer", 0.1)
        self.assertEqual((ratio["median"], ratio["least"], ratio["most"], ratio["pairs"], ratio["noisy"]), (2.5, 2, 3, 2, 1))

    def test_where_all_are_noisy_all_count(self):
        ratio = rounds.ratio([samples(10, 5, 0.5), samples(30, 10, 0.5)], "tok/s", "peer", 0.1)
        self.assertEqual((ratio["pairs"], ratio["noisy"]), (2, 2))

    def test_turns_go_back_and_forth_and_who_failed_is_not_asked_again(self):
        log = []
        contenders = [Contender("espalier", log), Contender("broken", log, fails=True), Contender("peer", log)]
        seen = rounds.play(contenders, 2, Contender.measure)
        self.assertEqual(log, ["espalier", "broken", "peer", "peer", "espalier"])
        rows = report.rows_of("decode", "m", "decode at 512", ("tok/s",), seen, math.inf)  # so short a turn says nothing of others
        self.assertEqual(rows[0]["ratios"]["peer"]["pairs"], 2)
        text = "\n".join(report.table(rows))
        self.assertIn("failed: m, decode at 512: broken: illegal instruction", text)


class Program(unittest.TestCase):
    def test_help_tells_defaults(self):
        done = subprocess.run([sys.executable, BENCH / "beside_peers.py", "--help"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("(default: 3)", done.stdout)
        self.assertNotIn("None", done.stdout)

    def test_what_cannot_be_measured_is_refused_at_once(self):
        for words in (["--only", "decoding"], ["--models", "nowhere.gguf"]):
            done = subprocess.run([sys.executable, BENCH / "beside_peers.py", *words], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)

    def test_a_command_that_is_killed_says_by_what(self):
        with self.assertRaisesRegex(Failed, "ended by SIGTERM"):
            Runner(60).run(["sh", "-c", "kill -TERM $$"])
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(Failed, "No such file"):
            Runner(60).run([f"{folder}/nothing"])


if __name__ == "__main__":
    unittest.main()
