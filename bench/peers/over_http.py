"""Many requests through the contenders' servers, by `espalier bench compare`, which launches them on free ports and takes turns."""
import dataclasses
import json
import os
import re
import shlex
import sys
import tempfile

from peers.rounds import OURS, Sample, take, turns
from peers.runner import Failed

WORKLOADS = ("i221_o201", "i243_o386", "i243_o770", "i295_o386", "i295_o770")
ONLINE = "i292_o579_online"
# our names of the figures that `bench compare` writes
FIGURES = {"output tok/s": "output throughput", "TTFT p50 ms": "TTFT median", "TTFT p99 ms": "TTFT p99", "TPOT p50 ms": "TPOT median",
           "TPOT p99 ms": "TPOT p99", "start s": None, "memory MiB": None}


@dataclasses.dataclass(frozen=True)
class Load:
    section: str
    flags: tuple  # of bench compare
    inside: bool  # contenders without a server do the like inside their process


def loads(section, options):
    if section == "offline":
        return [Load(section, ("--dataset-name", "random", "--num-prompts", "64", "--random-input-len", "250", "--random-output-len", "80",
                               "--random-range-ratio", "0.6"), True)]
    if section == "prefix":
        return [Load(section, ("--dataset-name", "generated-shared-prefix", "--gsp-num-groups", "1", "--gsp-prompts-per-group", "64",
                               "--gsp-system-prompt-len", "700", "--gsp-question-len", "40", "--gsp-output-len", "8"), True)]
    files = [os.path.join(options.workloads, f"{name}.small.jsonl.gz") for name in (*WORKLOADS, ONLINE)]
    return [Load(section, ("--dataset-path", *files[:-1]), False),
            Load(section, ("--dataset-path", files[-1], "--use-arrivals", "--request-rate", str(options.online_rate)), False)]


def command_lines(contenders, model):
    """NAME=COMMAND of each contender that has a server for this model."""
    lines = {}
    for contender in contenders:
        try:
            lines[contender.name] = f"{contender.name}={shlex.join(contender.server(model))}".replace("'{port}'", "{port}")
        except Failed as reason:
            print(f"{contender.name}: {reason}", file=sys.stderr, flush=True)
    return lines


def compare(espalier, lines, load, seed, options, runner):
    """What `bench compare` says of one repetition, and who was left out because its server did not come up."""
    lost = {}
    while OURS in lines:
        if len(lines) == 1:  # it compares at least two; a second Espalier shows what the machine's noise is worth
            lines[f"{OURS}-again"] = lines[OURS].replace(OURS, f"{OURS}-again", 1)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "compare.json")
            try:
                runner.run(espalier.command("bench", "compare", *lines.values(), "--repeat", "1", "--seed", str(seed), "--launch-timeout",
                                            str(options.launch_timeout), "--timeout", str(options.timeout), "--log-dir", options.log_dir,
                                            "--output-file", path, *load.flags), passing_on=True)
            except Failed as reason:
                if not os.path.exists(path):  # else requests failed, and the figures say whose
                    found = re.search(r"(\S+) (?:ended before it served|did not complete a request)", reason.said)
                    who = found[1] if found and found[1] in lines else OURS
                    print(f"{who}: {reason}", file=sys.stderr, flush=True)
                    lost[who] = Sample(failure=str(reason))
                    del lines[who]
                    continue
            with open(path) as file:
                return json.load(file), lost
    return None, lost


def samples_of(comparison, case):
    """Of one case (a workload) each server's figures."""
    out = {}
    for server in comparison["servers"]:
        seen = case["repetitions"][0]["servers"][server["name"]]
        figures = {ours: seen[theirs] for ours, theirs in FIGURES.items() if theirs in seen}
        figures |= {"start s": server["cold_start_s"][0]} if server.get("cold_start_s") else {}
        figures |= {"memory MiB": server["peak_rss_mib"]} if server.get("peak_rss_mib") else {}
        sample = Sample(figures, seen["conditions"]["strangers_cpu_share"] or 0.0)
        if failed := seen["failed"]:
            sample = Sample({}, sample.others, f"{failed} of {failed + seen['completed']} requests failed: {seen.get('first_error', '')}")
        out[server["name"]] = sample
    return out


def inside(contenders, model, load, seed):
    """Those whose load runs inside their process, for want of a server."""
    workers = [contender for contender in contenders if load.inside and hasattr(contender, "worker")]
    return {worker.name: take(worker, lambda w: w.worker(model, load.section, "--seed", seed)) for worker in workers}


def through_servers(order, model, load, seed, options, runner):
    """One turn of all servers: by name of the case everyone's sample, and who did not come up."""
    espalier = next(c for c in order if c.name == OURS)
    comparison, lost = compare(espalier, command_lines(order, model), load, seed, options, runner)
    if not comparison:
        return {load.section: {}}, lost
    cases = comparison["cases"]
    names = [case["name"] for case in cases] if load.section == "workloads" else [load.section]
    return {name: samples_of(comparison, case) for name, case in zip(names, cases)}, lost


def rounds_of(contenders, model, load, repeat, options, runner):
    """By name of the case its rounds. Every round launches its servers anew, so nothing is left of the round before; who could not
    be launched once is not waited for again."""
    rounds, failed = {}, {}
    for number in range(repeat):
        order = turns([c for c in contenders if c.name not in failed], number)
        own = inside(order, model, load, number) if number % 2 else None
        cases, lost = through_servers(order, model, load, number + 1, options, runner)
        own = inside(order, model, load, number) if own is None else own
        failed |= lost | {name: sample for name, sample in own.items() if sample.failure}
        for name, samples in cases.items():
            rounds.setdefault(name, []).append({**samples, **own, **failed})
        if OURS in failed:
            break
    return rounds
