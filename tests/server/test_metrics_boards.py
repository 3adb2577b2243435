"""What boards, alerts and autoscalers read: /metrics by Prometheus' own client library, and every query that we ship."""
import json
import re
import subprocess
import unittest

from harness import BINARY, SOURCE, Server

try:
    import yaml
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
    from prometheus_client.parser import text_string_to_metric_families as prometheus
except ImportError:
    yaml = prometheus = open_metrics = None

with_clients = unittest.skipUnless(prometheus, "prometheus_client and PyYAML are not installed")

SHORT = {"input_ids": [1, 2, 3], "sampling_params": {"temperature": 0, "max_new_tokens": 4, "ignore_eos": True}}
WORDS = {"sum", "by", "rate", "increase", "histogram_quantile", "le", "and", "or", "label_values", "instance", "model", "code",
         "reason", "on", "ignoring", "max", "min", "avg"}
# What vLLM's own Grafana board, and the autoscalers and pickers written for it, ask for.
VLLM_BOARD = ["vllm:e2e_request_latency_seconds_bucket", "vllm:e2e_request_latency_seconds_sum", "vllm:e2e_request_latency_seconds_count",
              "vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:inter_token_latency_seconds_bucket",
              "vllm:time_per_output_token_seconds_bucket", "vllm:time_to_first_token_seconds_bucket", "vllm:num_requests_running",
              "vllm:num_requests_waiting", "vllm:num_requests_swapped", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc",
              "vllm:request_prompt_tokens_bucket", "vllm:request_generation_tokens_bucket", "vllm:request_success_total",
              "vllm:request_queue_time_seconds_sum", "vllm:request_prefill_time_seconds_sum", "vllm:request_decode_time_seconds_sum",
              "vllm:request_max_num_generation_tokens_sum", "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total",
              "vllm:num_preemptions_total", "vllm:cache_config_info"]


def samples_of(text, parse=None):
    """Every sample by name: the list of its labels."""
    found = {}
    for family in (parse or prometheus)(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


def selectors(query):
    """The series that a query names, each with the labels that it matches on, and the labels that it groups by."""
    by = {label.strip() for group in re.findall(r"by\s*\(([^)]*)\)", query) for label in group.split(",")}
    bare = re.sub(r"by\s*\([^)]*\)", "", query)
    for name, _, labels in re.findall(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{([^}]*)\})?", re.sub(r"\[[^\]]*\]", "", re.sub(r'"[^"]*"', '""', bare))):
        if name in WORDS or name.startswith("__"):
            continue
        yield name, set(re.findall(r"([a-zA-Z_]+)\s*(?:=~|!=|!~|=)", labels)), by


def expect_answerable(case, query, found):
    """Every series of the query is there with its labels; `instance` is put there by Prometheus."""
    named = list(selectors(query))
    case.assertTrue(named, query)
    for name, matched, grouped in named:
        case.assertIn(name, found, query)
        labels = set().union(*found[name]) | {"instance"}
        case.assertLessEqual(matched | grouped, labels, f"{name} in {query}")


@with_clients
class Boards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--metrics-compat", "vllm", "--api-key", "k", "--max-queued-requests", "256")
        cls.addClassCleanup(cls.server.kill)
        key = {"Authorization": "Bearer k"}
        for _ in range(2):
            assert cls.server.post("/generate", SHORT, headers=key).status == 200
        assert cls.server.post("/generate", SHORT).status == 401  # a refusal is counted
        cls.text = cls.server.get("/metrics").body.decode()
        cls.found = samples_of(cls.text)

    def test_prometheus_own_library_reads_both_formats(self):
        families = {f.name: f for f in prometheus(self.text)}
        self.assertEqual(families["espalier_time_to_first_token_seconds"].type, "histogram")
        text = self.server.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}).body.decode()
        found = samples_of(text, open_metrics)
        self.assertLessEqual({"espalier_generated_tokens_total", "vllm:request_success_total"}, set(found))

    def test_every_query_of_our_board_finds_its_series(self):
        board = json.loads((SOURCE / "deploy/grafana/espalier.json").read_text())
        queries = [t["expr"] for panel in board["panels"] for t in panel.get("targets", ())]
        queries += [v["query"]["query"] for v in board["templating"]["list"] if isinstance(v["query"], dict)]
        self.assertGreater(len(queries), 30)
        for query in queries:
            expect_answerable(self, query, self.found)

    def test_panels_do_not_overlap_and_have_their_own_ids(self):
        panels = json.loads((SOURCE / "deploy/grafana/espalier.json").read_text())["panels"]
        self.assertEqual(len({p["id"] for p in panels}), len(panels))
        taken = set()
        for p in panels:
            place = p["gridPos"]
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, p["title"])
            self.assertLessEqual(place["x"] + place["w"], 24)
            taken |= cells

    def test_every_alert_finds_its_series_and_says_what_to_do(self):
        rules = [r for g in yaml.safe_load((SOURCE / "deploy/prometheus/espalier.rules.yaml").read_text())["groups"] for r in g["rules"]]
        self.assertGreater(len(rules), 8)
        for rule in rules:
            expect_answerable(self, rule["expr"], self.found)
            if "alert" in rule:
                self.assertLessEqual({"summary", "action"}, set(rule["annotations"]), rule["alert"])
                for flag in re.findall(r"--([a-z-]+)", rule["annotations"]["action"]):
                    self.assertIn(f"--{flag}", self.flags(), rule["alert"])

    def flags(self):
        return subprocess.run([BINARY, "serve", "--help"], capture_output=True, text=True).stdout

    def test_vllms_board_finds_its_series(self):
        for name in VLLM_BOARD:
            self.assertIn(name, self.found)
            self.assertIn("model_name", self.found[name][0], name)
        self.assertEqual({labels["finished_reason"] for labels in self.found["vllm:request_success_total"]},
                         {"stop", "length", "abort", "error"})

    def test_figures_under_all_names_agree(self):
        for ours, sglangs, vllms in (("generated_tokens_total", "generation_tokens_total", "generation_tokens_total"),
                                     ("requests_running", "num_running_reqs", "num_requests_running"),
                                     ("prompt_tokens_total", "prompt_tokens_total", "prompt_tokens_total"),
                                     ("time_to_first_token_seconds_count",) * 3):
            value = self.server.metric("espalier_" + ours)
            self.assertEqual(self.server.metric("sglang:" + sglangs), value, ours)
            self.assertEqual(self.server.metric("vllm:" + vllms), value, ours)


@with_clients
class Compat(unittest.TestCase):
    def test_names_of_others_are_there_as_asked(self):
        for flags, there in (((), {"espalier", "sglang"}), (("--metrics-compat", "none"), {"espalier"})):
            with Server(*flags) as server:
                names = set(samples_of(server.get("/metrics").body.decode()))
                self.assertEqual({n.split(":")[0] for n in names if ":" in n} | {"espalier"}, there)
        wrong = Server("--metrics-compat", "tgi", wait=False)
        self.addCleanup(wrong.kill)
        self.assertEqual(wrong.process.wait(30), 2)
        self.assertIn("sglang, vllm or none", wrong.text())


if __name__ == "__main__":
    unittest.main()
