"""bench/soak.py without a server: what it calls flat, how it holds clients back, what it reads, writes and draws, what it asks."""
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests" / "server"), str(ROOT / "tests" / "grammar")]
import soak  # noqa: E402: behind the path
from soaking import flatness, picture, traffic, watch  # noqa: E402

HOUR = 3600
SVG = "{http://www.w3.org/2000/svg}"


def noisy(seed, level, per_hour, seconds=HOUR, every=5, noise=12.0, peaks=0.05):
    """Times and values: a line with noise, and now and then a peak as a model that is loaded makes."""
    draw = random.Random(seed)
    times = [every * (i + 1) for i in range(seconds // every)]
    return times, [level + per_hour * at / HOUR + draw.gauss(0, noise) + (60 if draw.random() < peaks else 0) for at in times]


class Flatness(unittest.TestCase):
    memory = flatness.Criterion("rss_mib", "MiB", allowed_share=0.02)

    def judged(self, times, values, criterion=memory):
        columns = {"seconds": times, criterion.column: values, "at_rest": [int(criterion.at_rest)] * len(times)}
        return criterion.judge(columns, soak.WARM_UP)

    def test_noise_and_peaks_are_flat(self):
        for seed in range(20):
            verdict = self.judged(*noisy(seed, 130, 0))
            self.assertTrue(verdict.flat, (seed, str(verdict)))

    def test_a_leak_is_found_within_noise_larger_than_it_was_an_hour(self):
        for seed in range(20):
            verdict = self.judged(*noisy(seed, 130, 18))
            self.assertFalse(verdict.flat, (seed, str(verdict)))
            self.assertAlmostEqual(verdict.grown[1], 13.5, delta=6)

    def test_the_longer_it_runs_the_less_an_hour_is_let_through(self):
        self.assertTrue(self.judged(*noisy(1, 130, 1.5)).flat)
        self.assertFalse(self.judged(*noisy(1, 130, 1.5, 8 * HOUR)).flat)

    def test_the_interval_holds_the_slope_that_was_drawn(self):
        inside = 0
        for seed in range(40):
            least, _, most = self.judged(*noisy(seed, 130, 8)).grown
            inside += least <= 6 <= most
        self.assertGreaterEqual(inside, 34)

    def test_what_grows_in_the_warm_up_only_is_flat(self):
        times = list(range(5, HOUR, 5))
        self.assertTrue(self.judged(times, [min(at, 0.2 * HOUR) for at in times]).flat)
        self.assertFalse(self.judged(times, [float(at) for at in times]).flat)

    def test_one_descriptor_a_minute_is_not_flat_and_one_more_is(self):
        times, descriptors = list(range(5, HOUR, 5)), flatness.Criterion("descriptors", "", allowed=2)
        self.assertFalse(self.judged(times, [20 + at // 60 for at in times], descriptors).flat)
        self.assertTrue(self.judged(times, [20 + (at > 1800) for at in times], descriptors).flat)

    def test_rows_at_rest_and_under_load_are_judged_apart(self):
        times = list(range(5, HOUR, 5))
        rests = [int(i % 24 == 0) for i in range(len(times))]
        columns = {"seconds": times, "at_rest": rests, "rss_mib": [40 + at / 120 if rest else 130 for at, rest in zip(times, rests)]}
        resting = flatness.Criterion("rss_mib", "MiB", allowed_share=0.02, at_rest=True)
        self.assertTrue(self.memory.judge(columns, soak.WARM_UP).flat)
        self.assertFalse(resting.judge(columns, soak.WARM_UP).flat)
        self.assertEqual(resting.name, "rss_mib at rest")
        self.assertIsNone(resting.judge({**columns, "at_rest": [0] * len(times)}, soak.WARM_UP), "nothing to judge")

    def test_a_fall_is_flat(self):
        self.assertTrue(self.judged(*noisy(3, 200, -60)).flat)


class Pace(unittest.TestCase):
    """A clock and a meter that the test turns."""

    def setUp(self):
        self.now, self.used = 0.0, 0.0

    def pace(self, share):
        return watch.Pace(share, lambda: self.used, lambda: self.now, self.pass_time)

    def pass_time(self, seconds):
        self.now += seconds

    def test_clients_wait_until_their_share_is_not_exceeded(self):
        pace, over = self.pace(0.25), threading.Event()
        for _ in range(100):
            pace.wait(over)
            self.used += 0.1
            self.now += 0.01
        self.assertAlmostEqual(self.used / self.now, 0.25, delta=0.02)

    def test_what_was_not_used_is_not_saved_up(self):
        pace = self.pace(0.25)
        self.now = 1000.0
        self.assertAlmostEqual(pace.behind(), -pace.SAVED)
        self.used = 10.0
        self.assertAlmostEqual(pace.behind(), 10 - pace.SAVED)

    def test_a_gate_shuts_when_all_are_out_and_lets_them_in_again(self):
        gate, inside, came = watch.Gate(), threading.Event(), []

        def client():
            for i in range(3):
                with gate:
                    inside.set()
                    came.append(i)
        with gate:
            with self.assertRaisesRegex(TimeoutError, "1 clients"), gate.closed(0.01):
                pass
        with gate.closed():
            thread = threading.Thread(target=client)
            thread.start()
            self.assertFalse(inside.wait(0.05))
        thread.join()
        self.assertEqual(came, [0, 1, 2])

    def test_nobody_waits_when_it_is_over(self):
        over = threading.Event()
        over.set()
        self.used = 100.0
        self.pace(0.25).wait(over)
        self.assertEqual(self.now, 0)


class Samples(unittest.TestCase):
    def test_metrics_of_several_models_are_added_up(self):
        page = '# TYPE a gauge\na{model="x",le="0.1"} 2\na{model="y"} 3.5\nab{model="x"} 100\na_total 7\nb 1e3\n'
        self.assertEqual([watch.summed(page, name) for name in ("a", "a_total", "b", "none")], [5.5, 7, 1000, 0])

    def test_this_process_has_memory_descriptors_and_threads(self):
        before = watch.of_process("self")
        with tempfile.TemporaryFile(), tempfile.TemporaryFile():
            self.assertEqual(watch.of_process("self")["descriptors"], before["descriptors"] + 2)
        self.assertGreater(before["rss_mib"], before["anonymous_mib"])
        self.assertGreaterEqual(before["threads"], 1)

    def test_rows_go_through_a_file(self):
        row = {name: 1.5 + i for i, name in enumerate(watch.COLUMNS)} | {"p99_ms": float("nan"), "requests": 7}
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            print(",".join(watch.COLUMNS), watch.as_line(row), watch.as_line(row), "1,2,3", sep="\n", file=file, flush=True)  # killed in a row
            read = watch.read_csv(file.name)
        self.assertEqual((read["requests"], read["rss_mib"]), ([7, 7], [row["rss_mib"]] * 2))

    def test_latencies_are_told_once_and_counts_add_up(self):
        seen = watch.Seen()
        for i in range(100):
            seen.note("chat", "answered", i + 1.0)
        seen.note("chat", "wrong", fault="no")
        row = seen.take()
        self.assertEqual((row["requests"], row["wrong"], row["p50_ms"], row["p99_ms"]), (101, 1, 51, 100))
        self.assertEqual(seen.take()["requests"], 101)
        self.assertNotEqual(seen.take()["p50_ms"], seen.take()["p50_ms"])  # not a number: there were none


class Traffic(unittest.TestCase):
    def client(self, seed=1):
        return traffic.Client(0, watch.Seen(), seed)

    def test_every_kind_is_something_that_a_client_does(self):
        for kind in traffic.KINDS:
            self.assertTrue(callable(getattr(traffic.Client, kind)), kind)

    def test_constraints_are_ever_new(self):
        client = self.client()
        drawn = [json.dumps(client.constraint()) for _ in range(400)]
        self.assertGreater(len(set(drawn)), 300)
        self.assertEqual({next(iter(json.loads(one))) for one in drawn}, {"regex", "ebnf", "choices", "json_schema"})

    def test_the_same_seed_draws_the_same(self):
        self.assertEqual(*([self.client(9).constraint() for _ in range(3)] for _ in range(2)))

    def test_a_server_that_is_not_there_makes_wrong_answers(self):
        client = self.client()
        for _ in range(20):
            client.one()
        self.assertEqual(client.seen.outcomes["wrong"], 20)

    def test_every_model_of_the_mix_is_served(self):
        self.assertEqual(set(traffic.MODELS), set(soak.FOLDERS))
        self.assertTrue(all((soak.GOLDENS / folder / "config.json").exists() for folder in soak.FOLDERS.values()))


class Program(unittest.TestCase):
    def judged(self, **changed):
        """What the program says of a made-up hour; `changed`: columns."""
        times = [float(at) for at in range(5, HOUR, 5)]
        columns = {name: [10.0] * len(times) for name in watch.COLUMNS}
        columns |= {"seconds": times, "at_rest": [int(i % 24 == 23) for i in range(len(times))]} | changed
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "samples.csv")
            path.write_text("\n".join([",".join(watch.COLUMNS), *(watch.as_line(dict(zip(columns, row))) for row in zip(*columns.values()))]))
            done = subprocess.run([sys.executable, ROOT / "bench" / "soak.py", "--judge", path, "--figure", f"{folder}/a.svg"], capture_output=True, text=True)
            return done, pathlib.Path(folder, "a.svg").read_text()

    def test_what_is_flat_passes_and_what_grows_fails_and_is_named(self):
        self.assertEqual(self.judged()[0].returncode, 0)
        times = [float(at) for at in range(5, HOUR, 5)]
        for column in ("rss_mib", "descriptors", "threads", "disk_mib"):
            done, _ = self.judged(**{column: [100 + at / 60 for at in times]})
            self.assertEqual(done.returncode, 1, column)
            self.assertIn(f"soak: {column} is not flat", done.stdout)

    def test_the_picture_has_a_title_and_a_unit_for_each_axis_and_a_line_for_each_series(self):
        drawn = xml.etree.ElementTree.fromstring(self.judged()[1])
        texts = [text.text for text in drawn.iter(f"{SVG}text")]
        for title, lines in picture.PANELS:
            self.assertIn(title, texts)
            self.assertRegex(title, ", |count")
        self.assertIn("time since the start, minutes", texts)
        self.assertEqual(len(list(drawn.iter(f"{SVG}polyline"))), sum(len(lines) for _, lines in picture.PANELS))

    def test_hours_that_are_none_are_refused(self):
        done = subprocess.run([sys.executable, ROOT / "bench" / "soak.py", "--hours", "0"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--hours", done.stderr)


if __name__ == "__main__":
    unittest.main()
