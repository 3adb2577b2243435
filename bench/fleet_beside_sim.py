#!/usr/bin/env python3
"""What the simulator predicts of several servers behind sglang-router, beside several servers behind sglang-router.

    bench/fleet_beside_sim.py MODEL [--replicas 3] [--policies cache_aware,round_robin] [--concurrency 16] [--router-python PYTHON]
                              [--program espalier] [--cost BASE,PREFILL,DECODE,ATTENTION] [--out FILE.json]

One server with one thread answers a workload; then several of them behind the router answer it, with as many times the requests side by side.
The machine need not have a core for each: what counts is the processor's time of each server, simulated: of its steps. With a core each, the last one
is done after the longest of these, so throughput scaled by cores = output tokens / longest time of a processor. The simulator is told what a step takes (measured
here first on one thread, unless --cost says it), and has the model's tokenizer, so that it sees the same ids.
Beside the standard library it needs sglang-router (pip install sglang-router==0.3.2) for PYTHON.
"""
import argparse
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

NAME = "house-model"
DATA = ("--dataset-name", "generated-shared-prefix", "--gsp-num-groups", "24", "--gsp-prompts-per-group", "16", "--gsp-system-prompt-len", "300",
        "--gsp-question-len", "40", "--gsp-output-len", "24", "--seed", "3")
TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.loads(reply.read())


@contextlib.contextmanager
def running(command, env=None):
    log = tempfile.TemporaryFile()
    process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})})
    try:
        yield process, log
    finally:
        process.terminate()
        process.wait(30)


def text_of(log):
    log.seek(0)
    return log.read().decode(errors="replace")


class Server:
    def __init__(self, stack, program, model):
        self.process, log = stack.enter_context(running([program, "serve", model, "--port", "0", "--threads", "1", "--no-cache-disk",
                                                          "--served-model-name", NAME]))
        for _ in range(1200):
            found = re.search(r"ready on http://[^ :]+:(\d+)", text_of(log))
            if found:
                self.port = found[1]
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        sys.exit(text_of(log))

    def processor_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


def start_router(stack, python, policy, servers):
    port = free_port()
    process, log = stack.enter_context(running(
        [python, "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(free_port()),
         "--prometheus-host", "127.0.0.1", "--policy", policy, "--worker-urls", *[f"http://127.0.0.1:{s.port}" for s in servers]],
        {"HF_HUB_OFFLINE": "1"}))
    for asked in range(600):
        try:
            post(f"http://127.0.0.1:{port}/generate", {"model": NAME, "text": f"{asked} is new", "sampling_params": {"max_new_tokens": 1}})
            if asked >= 8 * len(servers):  # it has met all of them
                return port
        except (OSError, urllib.error.URLError):
            time.sleep(0.1)
        if process.poll() is not None:
            break
    sys.exit(text_of(log))


class Bench:
    def __init__(self, o):
        self.o = o

    def run(self, *words):
        done = subprocess.run([self.o.program, "bench", *map(str, words), *DATA, "--json"], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def cost(self):
        done = subprocess.run([self.o.program, "bench", "sim", "--measure", self.o.model, "--threads", "1", "--planning", "--planning-waiting", "1"],
                              capture_output=True, text=True)
        found = re.search(r"takes (\S+) seconds.*median error (\S+)\s*%", done.stderr, re.S)
        if not found:
            sys.exit(done.stderr)
        print(f"a step on one thread takes {found[1]} seconds (base,prefill,decode,attention); median error {found[2]} %")
        return found[1]

    def measured(self, policy, replicas):
        with contextlib.ExitStack() as stack:
            servers = [Server(stack, self.o.program, self.o.model) for _ in range(replicas)]
            port = start_router(stack, self.o.router_python, policy, servers) if policy else servers[0].port
            for server in servers:
                urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{server.port}/flush_cache", b"", method="POST")).read()
            before = [server.processor_seconds() for server in servers]
            report = self.run("serving", "--port", port, "--served-model-name", NAME, "--warmup-requests", 0, "--max-concurrency",
                              self.o.concurrency * replicas)
            times = [server.processor_seconds() - at for server, at in zip(servers, before)]
        if report["failed"]:
            sys.exit(f"{report['failed']} requests failed")
        return {"hit": report["cache_hit_rate_pct"], "throughput": report["total_output_tokens"] / max(times), "processor_seconds": times,
                "wall_throughput": report["output_throughput"]}

    def predicted(self, policy, replicas, cost):
        report = self.run("sim", "--model", self.o.model, "--cost", cost, "--replicas", replicas, "--router", policy or "random",
                          "--max-concurrency", self.o.concurrency * replicas)
        return {"hit": report["cache_hit_rate_pct"], "throughput": report["output_tokens"] / max(report.get("busy_seconds_of_replicas", [report["duration_s"]])),
                "wall_throughput": report["output_throughput"]}


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = os.path.dirname(os.path.abspath(__file__))
    parse.add_argument("model")
    parse.add_argument("--replicas", type=int, default=3)
    parse.add_argument("--policies", default="cache_aware,round_robin")
    parse.add_argument("--concurrency", type=int, default=16)
    parse.add_argument("--router-python", default=sys.executable)
    parse.add_argument("--program", default=os.path.join(here, "..", "build", "espalier"))
    parse.add_argument("--cost")
    parse.add_argument("--out")
    o = parse.parse_args()
    bench = Bench(o)
    cost = o.cost or bench.cost()
    rows = []
    for policy, replicas in [("", 1)] + [(policy, o.replicas) for policy in o.policies.split(",")]:
        rows.append({"router": policy or "none", "replicas": replicas, "predicted": bench.predicted(policy, replicas, cost),
                     "measured": bench.measured(policy, replicas)})
    one = rows[0]
    print(f"{'':24}{'cached %':>22}{'output tokens/s':>24}{'times one server':>22}")
    print(f"{'router, servers':24}{'predicted  measured':>22}{'predicted  measured':>24}{'predicted  measured':>22}")
    for row in rows:
        p, m = row["predicted"], row["measured"]
        row["times"] = {"predicted": p["throughput"] / one["predicted"]["throughput"], "measured": m["throughput"] / one["measured"]["throughput"]}
        print(f"{row['router'] + ', ' + str(row['replicas']):24}{p['hit']:12.2f}{m['hit']:10.2f}{p['throughput']:14.1f}{m['throughput']:10.1f}"
              f"{row['times']['predicted']:12.2f}{row['times']['measured']:10.2f}")
    if o.out:
        with open(o.out, "w") as out:
            json.dump({"cost": cost, "concurrency": o.concurrency, "rows": rows}, out, indent=1)


if __name__ == "__main__":
    main()
