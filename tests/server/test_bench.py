"""`espalier bench serving` and `espalier bench compare` against the built server on a tiny model."""
import gzip
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree

import harness
from harness import BINARY, MODEL, ServerCase, expect_no_report

HEADER = {"workload": "tiny", "format": "espalier-workload/1", "order": "any", "api": "completions"}
KEYS = {"tag", "backend", "dataset_name", "request_rate", "max_concurrency", "sharegpt_output_len", "random_input_len", "random_output_len",
        "random_range_ratio", "server_info", "duration", "completed", "total_input_tokens", "total_output_tokens",
        "total_output_tokens_retokenized", "request_throughput", "input_throughput", "output_throughput", "total_throughput", "concurrency",
        "accept_length", "max_output_tokens_per_s", "max_concurrent_requests", "total_cached_tokens", "cache_hit_rate_pct",
        *(f"{s}_{w}_ms" for s in ("mean", "median", "std", "p90", "p95", "p99") for w in ("e2e_latency", "ttft", "tpot", "itl"))}


def bench(*words, code=0, env=None):
    done = subprocess.run([BINARY, "bench", *map(str, words)], capture_output=True, text=True, timeout=120, env={**os.environ, **(env or {})})
    expect_no_report(done.stderr)
    if code is not None and done.returncode != code:
        raise AssertionError(f"exit code {done.returncode}, not {code}:\n{done.stdout}\n{done.stderr}")
    return done


def workload(folder, name, kind, items, **more):
    path = pathlib.Path(folder) / f"{name}.jsonl.gz"
    lines = [{**HEADER, "workload": name, "kind": kind, "n": len(items), **more}, *items]
    with gzip.open(path, "wt") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines))
    return path


class Bench(ServerCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)

    def serving(self, *words, **more):
        return bench("serving", "--port", self.server.port, *words, **more)

    def path(self, name):
        return str(pathlib.Path(self.folder.name) / name)

    def test_random_requests_through_every_interface(self):
        for backend in ("espalier", "sglang", "espalier-oai", "vllm", "openai"):
            with self.subTest(backend):
                done = self.serving("--backend", backend, "--num-prompts", 6, "--random-input-len", 20, "--random-output-len", 5,
                                    "--random-range-ratio", 1, "--seed", len(backend), "--json", "--output-details",
                                    *([] if "sglang" in backend or "espalier" in backend else ["--vocab-size", 320]))
                line = json.loads(done.stdout)
                self.assertLessEqual(KEYS, set(line))
                self.assertEqual((line["completed"], line["failed"]), (6, 0))
                self.assertEqual(line["total_input_tokens"], 120)
                self.assertEqual(line["total_output_tokens"], 30)
                self.assertEqual(line["output_lens"], [5] * 6)
                self.assertGreater(line["median_ttft_ms"], 0)
                self.assertGreater(line["median_e2e_latency_ms"], line["median_ttft_ms"])
                self.assertIsNotNone(line["cache_hit_rate_pct"])

    def test_whole_replies_and_words(self):
        for words in (["--disable-stream"], ["--prompt-form", "text"], ["--max-concurrency", 2], ["--request-rate", 50, "--burstiness", 0.5],
                      ["--return-logprob"], ["--fresh-connections"], ["--flush-cache"], ["--disable-ignore-eos"]):
            with self.subTest(words):
                done = self.serving("--num-prompts", 4, "--random-input-len", 10, "--random-output-len", 4, "--json", *words)
                self.assertEqual(json.loads(done.stdout)["completed"], 4)

    def test_shared_prefixes_are_found_in_the_cache(self):
        done = self.serving("--dataset-name", "generated-shared-prefix", "--gsp-num-groups", 2, "--gsp-prompts-per-group", 8,
                            "--gsp-system-prompt-len", 80, "--gsp-question-len", 4, "--gsp-output-len", 2, "--max-concurrency", 1,
                            "--report-ideal", "--flush-cache", "--json")
        line = json.loads(done.stdout)
        self.assertEqual(line["completed"], 16)
        self.assertAlmostEqual(line["ideal_hit_rate_pct"], 100 * 14 * 80 / (16 * 84), delta=2)
        self.assertAlmostEqual(line["cache_hit_rate_pct"], line["ideal_hit_rate_pct"], delta=0.5)

    def test_a_sweep_with_its_files_and_plot(self):
        plot, out = self.path("sweep.svg"), self.path("sweep.jsonl")
        done = self.serving("--num-prompts", 4, "--random-input-len", 10, "--random-output-len", 4, "--request-rate", "20,40,inf", "--plot",
                            plot, "--output-file", out, "--tag", "x", "--save-result", "--result-dir", self.folder.name, "--result-filename", "v.json",
                            "--goodput", "ttft:10000,e2el:20000")
        self.assertIn("Time to first token (TTFT)", done.stdout)
        self.assertIn("TTFT ms", done.stdout)
        with open(out) as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["request_rate"] for line in lines], [20, 40, "inf"])
        self.assertEqual({line["tag"] for line in lines}, {"x"})
        root = xml.etree.ElementTree.parse(plot).getroot()
        self.assertTrue(root.tag.endswith("svg"))
        with open(self.path("v.json")) as file:
            self.assertIn("total_token_throughput", json.load(file))

    def test_a_workload_of_requests(self):
        items = [{"id": str(i), "prompt": f"Question {i}: what?\nAnswer:", "max_tokens": 4, "temperature": 0, "answer": "12", "share": [],
                  "arrival": i * 0.01} for i in range(5)]
        items.append({"id": "c", "prompt": "Yes or no?", "max_tokens": 2, "choices": [" yes", " no"], "answer": " yes", "share": []})
        path = workload(self.folder.name, "asked", "requests", items)
        for words in (["--use-arrivals"], ["--select", "generate"], ["--backend", "espalier-oai"]):
            with self.subTest(words):
                line = json.loads(self.serving("--dataset-path", path, "--json", *words).stdout)
                self.assertEqual((line["completed"], line["failed"]), (6, 0))
                self.assertEqual(line["workload"]["answers_checked"], 6)
        line = json.loads(self.serving("--dataset-path", path, "--json").stdout)
        self.assertEqual(line["workload"]["select_scorings"], 1)

    def test_a_workload_of_programs(self):
        ops = [{"op": "text", "text": "Points:"}, {"op": "gen", "var": "points", "max_tokens": 6, "n": 2},
               {"op": "fork", "var": "b", "from": "here", "branches": [
                   [{"op": "text", "text": f"\nPoint {i}:"}, {"op": "var", "name": "points", "line": i}, {"op": "gen", "var": "body", "max_tokens": 4}]
                   for i in range(3)]},
               {"op": "var", "name": "b.1.body", "strip": True}, {"op": "select", "var": "good", "choices": [" yes", " no"]}]
        items = [{"id": str(i), "ops": [{"op": "text", "text": f"Item {i}. "}, *ops], "share": []} for i in range(4)]
        path = workload(self.folder.name, "branches", "programs", items)
        for backend in ("espalier", "espalier-oai", "llamacpp"):
            with self.subTest(backend):
                line = json.loads(self.serving("--backend", backend, "--dataset-path", path, "--json").stdout)
                self.assertEqual(line["failed"], 0, line.get("first_error"))
                self.assertEqual(line["workload"]["programs"], 4)
                self.assertEqual(line["completed"], 4 * (6 if backend == "llamacpp" else 5))
                self.assertGreater(line["total_cached_tokens"], 0)

    def test_chats(self):
        ops = [{"op": "msg", "role": "user", "ops": [{"op": "text", "text": "Hello"}]},
               {"op": "msg", "role": "assistant", "ops": [{"op": "gen", "var": "a", "max_tokens": 5, "ignore_eos": True}]},
               {"op": "msg", "role": "user", "ops": [{"op": "text", "text": "And?"}]},
               {"op": "msg", "role": "assistant", "ops": [{"op": "gen", "var": "b", "max_tokens": 5, "ignore_eos": True}]}]
        path = workload(self.folder.name, "talk", "programs", [{"id": "t", "ops": ops, "share": []}], api="chat")
        done = self.serving("--dataset-path", path, "--json", code=None)
        if done.returncode != 0 and "chat template" in done.stdout + done.stderr:
            self.skipTest("the tiny model has no chat template")
        line = json.loads(done.stdout)
        self.assertEqual((line["completed"], line["total_output_tokens"]), (2, 10))

    def test_constraints_a_server_refuses_are_left_out_and_said(self):
        items = [{"id": "a", "prompt": "Number: ", "max_tokens": 4, "regex": "[0-9]{2}", "answer": "12", "share": []}]
        path = workload(self.folder.name, "digits", "requests", items)
        line = json.loads(self.serving("--dataset-path", path, "--json").stdout)
        self.assertEqual(line["completed"], 1)
        if "notes" in line:
            self.assertIn("constraints are left out", line["notes"][0])

    def test_a_folder_of_workloads_gives_a_line_for_each(self):
        folder = self.path("many")
        os.mkdir(folder)
        for name in ("one.small", "two.small", "three"):
            workload(folder, name, "requests", [{"id": "a", "prompt": name, "max_tokens": 2, "share": []}])
        done = self.serving("--dataset-path", folder, "--workload-size", "small")
        table = done.stdout.split("\nworkload ")[1]
        self.assertIn("one.small", table)
        self.assertIn("two.small", table)
        self.assertNotIn("three", table)

    def test_what_is_wrong_is_said_and_where(self):
        bad = pathlib.Path(self.path("bad.jsonl"))
        bad.write_text(json.dumps({**HEADER, "kind": "requests", "n": 1}) + '\n{"id":"a","prompt":"x","max_tokens":"many"}\n')
        self.assertIn("bad.jsonl line 2: max_tokens", self.serving("--dataset-path", bad, code=3).stderr)
        for words, says in ((["--backend", "nobody"], "there are espalier"), (["--dataset-name", "mmmu"], "pictures"),
                            (["--profile"], "profiler"), (["--pd-separated"], "router"), (["--plot", "x.png"], ".svg or .html"),
                            (["--request-rate", "0"], "--request-rate 0"), (["--dataset-name", "sharegpt"], "--dataset-path"),
                            (["--extra-request-body", "{"], "--extra-request-body")):
            with self.subTest(words):
                self.assertIn(says, self.serving(*words, code=2).stderr)
        done = self.serving("--vocab-size", 900, "--num-prompts", 2, "--random-input-len", 40, code=6)
        self.assertIn("warm-up request failed", done.stderr)
        self.assertIn("no server answers", bench("serving", "--port", 1, code=6).stderr)

    def test_a_simulation_prints_the_same_bytes_twice_and_a_row_for_each_setting(self):
        words = ("sim", "--num-prompts", 300, "--dataset-name", "generated-shared-prefix", "--gsp-num-groups", 8, "--gsp-prompts-per-group", 8,
                 "--gsp-system-prompt-len", 200, "--gsp-question-len", 30, "--gsp-output-len", 16, "--pool-tokens", "1000,20000",
                 "--policy", "lpm,fcfs", "--eviction", "lru,cost")
        table = bench(*words).stdout
        self.assertEqual(table, bench(*words).stdout)
        rows = [json.loads(line) for line in bench(*words, "--json").stdout.splitlines()]
        self.assertEqual([(r["pool_tokens"], r["policy"], r["eviction"]) for r in rows],
                         [(p, s, e) for p in (1000, 20000) for s in ("lpm", "fcfs") for e in ("lru", "cost")])
        for row in rows:
            self.assertEqual((row["completed"], row["failed"], row["input_tokens"]), (300, 0, 300 * 230))
            self.assertLessEqual(row["cache_hit_rate_pct"], row["ideal_hit_rate_pct"])
        self.assertGreater(rows[0]["cache_hit_rate_pct"], rows[2]["cache_hit_rate_pct"])  # small pool: lpm above fcfs
        for flags, field in ((("--policy", "lpm,best"), "--policy best"), (("--eviction", "mru"), "--eviction mru"), (("--cost", "1,2"), "--cost 1,2")):
            self.assertIn(field, bench("sim", *flags, code=2).stderr)

    def test_two_servers_in_alternation(self):
        plot, out = self.path("beside.html"), self.path("beside.json")
        launched = f"launched={BINARY} serve {MODEL} --port {{port}} --threads 1 --activations f32"
        started = time.monotonic()
        done = bench("compare", f"http://127.0.0.1:{self.server.port}", launched, "--repeat", 2, "--settle", 0, "--num-prompts", 4, "--random-input-len", 20,
                     "--random-output-len", 5, "--random-range-ratio", 1, "--plot", plot, "--output-file", out, "--log-dir", self.folder.name)
        self.assertLess(time.monotonic() - started, 100)
        self.assertIn("median", done.stdout)
        with open(out) as file:
            result = json.load(file)
        self.assertEqual([s["backend"] for s in result["servers"]], ["espalier-oai", "espalier-oai"])
        self.assertGreater(result["servers"][1]["cold_start_s"][0], 0)
        self.assertGreater(result["servers"][0]["peak_rss_mib"], 0)
        case = result["cases"][0]
        self.assertEqual(len(case["repetitions"]), 2)
        for repetition in case["repetitions"]:
            for figures in repetition["servers"].values():
                self.assertEqual((figures["completed"], figures["input_tokens"], figures["output_tokens"]), (4, 80, 20))
                self.assertIsNotNone(figures["conditions"]["strangers_cpu_share"])
        ratios = next(iter(case["ratios"].values()))
        self.assertGreater(ratios["output throughput"]["median"], 0)
        with open(plot) as file:
            page = file.read()
        self.assertIn("<svg", page)
        self.assertNotIn("http://", page.replace("http://www.w3.org/2000/svg", ""))

    def test_cold_starts_and_workloads_in_a_comparison(self):
        items = [{"id": str(i), "prompt": f"A long enough shared beginning, {i}", "max_tokens": 3, "share": []} for i in range(4)]
        path = workload(self.folder.name, "cold", "requests", items)
        command = f"{BINARY} serve {MODEL} --port {{port}} --threads 1 --activations f32"
        done = bench("compare", "a=" + command, "b=" + command, "--repeat", 1, "--settle", 0.5, "--cold-start", "--dataset-path", path, "--request-rate", "inf,50",
                     "--json", "--log-dir", self.folder.name)
        result = json.loads(done.stdout)
        self.assertEqual([case["name"] for case in result["cases"]], ["cold", "cold"])
        for case in result["cases"]:
            for figures in case["repetitions"][0]["servers"].values():
                self.assertGreater(figures["cold_start_s"], 0)
                self.assertEqual(figures["completed"], 4)
        self.assertIn("ended before it served", bench("compare", "a=false {port}", "b=" + command, "--log-dir", self.folder.name, code=None).stderr)


if __name__ == "__main__":
    unittest.main()
