"""The Kubernetes manifests: they parse, name each other, and name routes, ports and flags that the built server has."""
import json
import subprocess
import unittest

import yaml

from served import BINARY, SOURCE, Server

FOLDER = SOURCE / "deploy" / "kubernetes"
OBJECTS = {one["kind"]: one for file in sorted(FOLDER.glob("*.yaml")) for one in yaml.safe_load_all(file.read_text())}
POD = OBJECTS["Deployment"]["spec"]["template"]
CONTAINER, = POD["spec"]["containers"]
# The metrics that endpoint pickers read of servers whose engine type is sglang.
PICKED = ("sglang:num_queue_reqs", "sglang:num_running_reqs", "sglang:token_usage", "sglang:cache_config_info")


def selects(selector, labels):
    return selector.items() <= labels.items()


class Manifests(unittest.TestCase):
    def test_objects_name_each_other(self):
        labels = POD["metadata"]["labels"]
        self.assertEqual(labels["llm-d.ai/engine-type"], "sglang")
        for selector in (OBJECTS["Deployment"]["spec"]["selector"]["matchLabels"], OBJECTS["Service"]["spec"]["selector"],
                         OBJECTS["InferencePool"]["spec"]["selector"]["matchLabels"]):
            self.assertTrue(selects(selector, labels), selector)
        ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
        self.assertIn(OBJECTS["Service"]["spec"]["ports"][0]["targetPort"], ports)
        self.assertEqual([port["number"] for port in OBJECTS["InferencePool"]["spec"]["targetPorts"]], [ports["http"]])
        self.assertEqual(POD["metadata"]["annotations"]["prometheus.io/port"], str(ports["http"]))
        backend, = OBJECTS["HTTPRoute"]["spec"]["rules"][0]["backendRefs"]
        self.assertEqual((backend["kind"], backend["name"]), ("InferencePool", OBJECTS["InferencePool"]["metadata"]["name"]))
        volumes = {volume["name"] for volume in POD["spec"]["volumes"]}
        self.assertEqual({mount["name"] for mount in CONTAINER["volumeMounts"]}, volumes)

    def test_flags_are_those_of_the_program(self):
        known = subprocess.run([BINARY, "serve", "--help"], capture_output=True, text=True, check=True).stdout
        flags = dict(word.split("=", 1) for word in CONTAINER["args"] if word.startswith("--"))
        for flag in flags:
            self.assertIn(flag, known)
        events = json.loads(flags["--kv-events-config"])
        ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
        self.assertEqual((events["endpoint"], events["replay_endpoint"]),
                         (f"tcp://*:{ports['kv-events']}", f"tcp://*:{ports['kv-replay']}"))
        pre_stop = int(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][1])
        self.assertGreater(POD["spec"]["terminationGracePeriodSeconds"], pre_stop + int(flags["--shutdown-timeout"]))

    def test_probes_and_metrics_answer_without_a_key(self):
        with Server("--api-key", "k") as server:
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                self.assertEqual(server.get(CONTAINER[probe]["httpGet"]["path"]).status, 200)
            text = server.get(POD["metadata"]["annotations"]["prometheus.io/path"]).body.decode()
            for name in PICKED:
                self.assertIn("\n" + name, text)


if __name__ == "__main__":
    unittest.main()
