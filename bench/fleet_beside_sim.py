#!/usr/bin/env python3
"""What the simulator predicts of several servers behind sglang-router, beside several servers behind sglang-router.

    bench/fleet_beside_sim.py [MODEL] [--replicas 2,3] [--policies cache_aware] [--rounds 3] [--concurrency 16] [--router-python PYTHON]
                              [--program espalier] [--cost BASE,PREFILL,DECODE,ATTENTION] [--out FILE.json]

One server with one thread answers a workload; then several of them behind the router answer it, with as many times the requests side by side. Rounds of all
settings alternate; figures are medians. Some five minutes on two free cores; without MODEL it is smollm2-135m.

Scaled by cores: the machine need not have a core for each. What counts is the processor's time of each server, simulated: of its steps. With a core each, the
last one is done after the longest of these, so throughput scaled by cores = output tokens / longest time of a processor.
By the clock: where there are as many cores as servers, each server is held to one core, and router and client to the same ones. So one server has one core
with its client on it, two have two; the ratio is that of output tokens a second as the client saw them. It says nothing while others use the machine: how much they
did is printed.

The simulator is told what a step takes (measured here first on one thread, unless --cost says it), and has the model's tokenizer, so that it sees the same ids.
Beside the standard library it needs sglang-router (pip install sglang-router==0.3.2) for PYTHON; tests/clients/venv.sh makes one that has it.
"""
import argparse
import contextlib
import json
import os
import re
import resource
import socket
import statistics
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
CORES = sorted(os.sched_getaffinity(0))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.loads(reply.read())


@contextlib.contextmanager
def running(command, env=None, cores=CORES):
    log = tempfile.TemporaryFile()
    process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})},
                               preexec_fn=lambda: os.sched_setaffinity(0, cores))
    try:
        yield process, log
    finally:
        process.terminate()
        process.wait(30)


def text_of(log):
    log.seek(0)
    return log.read().decode(errors="replace")


def processor_seconds(process):
    with open(f"/proc/{process.pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Others:
    """How much of all cores was taken by what is not ours, between two moments; `ours` are processes that go on."""

    def __init__(self, ours):
        self.ours = ours
        self.began = self.now()

    def now(self):
        with open("/proc/stat") as stat:
            user, nice, system, idle, wait, irq, soft, steal = (int(word) / TICKS for word in stat.readline().split()[1:9])
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        ours = sum(map(processor_seconds, self.ours)) + children.ru_utime + children.ru_stime
        busy = user + nice + system + irq + soft + steal
        return busy - ours, busy + idle + wait

    def share(self):
        (busy, whole), (busy_then, whole_then) = self.now(), self.began
        return max(0, busy - busy_then) / (whole - whole_then)


class Server:
    def __init__(self, stack, program, model, cores):
        self.process, log = stack.enter_context(running([program, "serve", model, "--port", "0", "--threads", "1", "--no-cache-disk",
                                                         "--served-model-name", NAME], cores=cores))
        for _ in range(1200):
            found = re.search(r"ready on http://[^ :]+:(\d+)", text_of(log))
            if found:
                self.port = found[1]
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        sys.exit(text_of(log))


def start_router(stack, python, policy, servers, cores):
    port = free_port()
    process, log = stack.enter_context(running(
        [python, "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(free_port()),
         "--prometheus-host", "127.0.0.1", "--policy", policy, "--worker-urls", *[f"http://127.0.0.1:{s.port}" for s in servers]],
        {"HF_HUB_OFFLINE": "1"}, cores))
    for asked in range(600):
        try:
            post(f"http://127.0.0.1:{port}/generate", {"model": NAME, "text": f"{asked} is new", "sampling_params": {"max_new_tokens": 1}})
            if asked >= 8 * len(servers):  # it has met all of them
                return port, process
        except (OSError, urllib.error.URLError):
            time.sleep(0.1)
        if process.poll() is not None:
            break
    sys.exit(text_of(log))


class Bench:
    def __init__(self, o):
        self.o = o

    def run(self, *words, cores=CORES):
        done = subprocess.run([self.o.program, "bench", *map(str, words), *DATA, "--json"], capture_output=True, text=True,
                              preexec_fn=lambda: os.sched_setaffinity(0, cores))
        if done.returncode:
            sys.exit(done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def cost(self):
        done = subprocess.run([self.o.program, "bench", "sim", "--measure", self.o.model, "--threads", "1", "--planning", "--planning-waiting", "1"],
                              capture_output=True, text=True)
        found = re.search(r"takes (\S+) seconds.*median error (\S+)\s*%", done.stderr, re.S)
        if not found:
            sys.exit(done.stderr)
        print(f"a step on one thread takes {found[1]} seconds (base,prefill,decode,attention); median error {found[2]} %", flush=True)
        return found[1]

    def measured(self, policy, replicas):
        a_core_each = replicas <= len(CORES)
        cores = CORES[:replicas] if a_core_each else CORES
        with contextlib.ExitStack() as stack:
            servers = [Server(stack, self.o.program, self.o.model, {cores[i]} if a_core_each else cores) for i in range(replicas)]
            port, *others = start_router(stack, self.o.router_python, policy, servers, cores) if policy else (servers[0].port,)
            for server in servers:
                urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{server.port}/flush_cache", b"", method="POST")).read()
            load = Others([server.process for server in servers] + others)
            before = [processor_seconds(server.process) for server in servers]
            report = self.run("serving", "--port", port, "--served-model-name", NAME, "--warmup-requests", 0, "--max-concurrency",
                              self.o.concurrency * replicas, cores=cores)
            times = [processor_seconds(server.process) - at for server, at in zip(servers, before)]
            others_share = load.share()
        if report["failed"]:
            sys.exit(f"{report['failed']} requests failed")
        return {"hit": report["cache_hit_rate_pct"], "throughput": report["total_output_tokens"] / max(times), "processor_seconds": times,
                "by_the_clock": report["output_throughput"] if a_core_each else None, "others": others_share}

    def predicted(self, policy, replicas, cost):
        report = self.run("sim", "--model", self.o.model, "--cost", cost, "--replicas", replicas, "--router", policy or "random",
                          "--max-concurrency", self.o.concurrency * replicas)
        return {"hit": report["cache_hit_rate_pct"], "throughput": report["output_tokens"] / max(report.get("busy_seconds_of_replicas", [report["duration_s"]])),
                "by_the_clock": report["output_throughput"]}

    def rounds(self, settings):
        """Each setting's rounds; all settings once before any is measured again."""
        runs = {setting: [] for setting in settings}
        for number in range(self.o.rounds):
            for policy, replicas in settings:
                run = self.measured(policy, replicas)
                runs[policy, replicas].append(run)
                clock = f", {run['by_the_clock']:.1f} by the clock" if run["by_the_clock"] else ""
                print(f"round {number + 1}, {policy or 'no router'}, {replicas}: {run['hit']:.2f} % cached, {run['throughput']:.1f} tokens/s scaled by "
                      f"cores{clock}; others took {run['others']:.0%} of the machine", flush=True)
        return runs


def median(runs, what):
    return None if runs[0][what] is None else statistics.median(run[what] for run in runs)


def times_one(row, one, what, side):
    return row[side][what] / one[side][what] if row[side][what] else None


def show(rows):
    one = rows[0]
    print(f"{'':24}{'cached %':>22}{'output tokens/s':>24}{'times one server':>22}{'by the clock':>22}")
    print(f"{'router, servers':24}" + f"{'predicted  measured':>22}{'predicted  measured':>24}{'predicted  measured':>22}{'predicted  measured':>22}")
    for row in rows:
        p, m = row["predicted"], row["measured"]
        row["times"] = {side: times_one(row, one, "throughput", side) for side in ("predicted", "measured")}
        row["times_by_the_clock"] = {side: times_one(row, one, "by_the_clock", side) for side in ("predicted", "measured")}
        clock = row["times_by_the_clock"]["measured"]
        print(f"{row['router'] + ', ' + str(row['replicas']):24}{p['hit']:12.2f}{m['hit']:10.2f}{p['throughput']:14.1f}{m['throughput']:10.1f}"
              f"{row['times']['predicted']:12.2f}{row['times']['measured']:10.2f}{row['times_by_the_clock']['predicted']:12.2f}"
              + (f"{clock:10.2f}" if clock else f"{'-':>10}"))


def options():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    router_python = os.path.join(root, "build", "clients-venv", "bin", "python")
    parse.add_argument("model", nargs="?")
    parse.add_argument("--replicas", default="2,3")
    parse.add_argument("--policies", default="cache_aware")
    parse.add_argument("--rounds", type=int, default=3)
    parse.add_argument("--concurrency", type=int, default=16)
    parse.add_argument("--router-python", default=router_python if os.path.exists(router_python) else sys.executable)
    parse.add_argument("--program", default=os.path.join(root, "build", "espalier"))
    parse.add_argument("--cost")
    parse.add_argument("--out")
    o = parse.parse_args()
    o.model = o.model or subprocess.run([o.program, "pull", "smollm2-135m"], check=True, stdout=subprocess.PIPE, text=True).stdout.split("\n")[-2]
    return o


def main():
    o = options()
    bench = Bench(o)
    cost = o.cost or bench.cost()
    settings = [("", 1)] + [(policy, int(replicas)) for policy in o.policies.split(",") for replicas in o.replicas.split(",")]
    predicted = {setting: bench.predicted(*setting, cost) for setting in settings}
    runs = bench.rounds(settings)
    rows = [{"router": policy or "none", "replicas": replicas, "predicted": predicted[policy, replicas],
             "measured": {what: median(runs[policy, replicas], what) for what in ("hit", "throughput", "by_the_clock", "others")},
             "rounds": runs[policy, replicas]} for policy, replicas in settings]
    show(rows)
    others = [run["others"] for each in runs.values() for run in each]
    print(f"{o.rounds} rounds, medians; {len(CORES)} cores, of which others took {min(others):.0%} to {max(others):.0%}")
    if max(others) > 0.1:
        print("what was measured by the clock is of a machine that others used: run it again when nobody does")
    if o.out:
        with open(o.out, "w") as out:
            json.dump({"cost": cost, "concurrency": o.concurrency, "rows": rows}, out, indent=1)


if __name__ == "__main__":
    main()
