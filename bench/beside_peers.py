#!/usr/bin/env python3
"""Espalier beside llama.cpp, OpenVINO GenAI and vLLM on the same files, threads and requests, in alternation, in one run.

    bench/beside_peers.py --peers DIR [--models smol-Q8_0,1b-Q4_0] [--only prefill,decode] [--quick] [--out FILE.json]

DIR is where they are installed, and the model files: llamacpp/build/bin, openvino/ov, vllm/vllm (virtual environments), models. Any GGUF
file is measured too when --models names it; a folder `hf` beside it is what vLLM serves (as bfloat16: it has no weights of
fewer bits here). A peer that is not there is named and left out; one that fails is told in its row, and the run goes on.

  prefill, decode, batch    in each one's own process: prompts of 512 and 2048 tokens, one sequence behind 512, 32 sequences behind 512
  offline, prefix           64 requests at once: about 200 tokens in and 64 out; 740 in, of them 700 the same for all, and 8 out
  workloads                 small sets of --workloads (i221_o201 ... i292_o579_online)

The last three go over HTTP through `espalier bench compare`. OpenVINO has no server: its offline and prefix run inside its process,
which spares it the HTTP. Where no other server comes up, a second Espalier stands beside the first. Contenders take turns, every
second round the other way round. Printed for each figure: the medians; the share of the nearer limit of this machine, measured in
the same run; and ours by theirs, taken within each round, as median (least..most), with the largest share of the processors that
strangers used: above --noise a pair is marked ~ and left out while quiet ones remain. For tok/s a ratio above 1 is better, for
times and memory one below 1. Progress and commands go to stderr as they come. The exit code is 0 when Espalier has all its figures,
1 when one is missing. Only Python's own library is needed.
"""
import argparse
import datetime
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peers import contenders, in_process, machine, models, over_http, report  # noqa: E402: they lie beside this file
from peers.rounds import OURS  # noqa: E402
from peers.runner import Failed, Runner  # noqa: E402

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
INSIDE, HTTP = ("prefill", "decode", "batch"), ("offline", "prefix", "workloads")


class Help(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    def _get_help_string(self, action):
        return super()._get_help_string(action) if action.default else action.help  # "(default: None)" tells nothing


def several(allowed):
    def parse(text):
        chosen = text.split(",")
        if unknown := [word for word in chosen if word not in allowed]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: must be of {', '.join(allowed)}")
        return chosen
    return parse


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=Help)
    what = parser.add_argument_group("what")
    what.add_argument("--only", type=several(INSIDE + HTTP), default=",".join(INSIDE + HTTP), metavar="SECTIONS", help="by commas")
    what.add_argument("--models", default=",".join(models.NAMES), metavar="MODELS",
                      help="of prefill, decode, batch: names of make_models.py's files, or GGUF files, by commas")
    what.add_argument("--http-models", default="smol-Q8_0", metavar="MODELS", help="of offline, prefix, workloads")
    what.add_argument("--repeat", type=int, default=3, help="rounds")
    what.add_argument("--quick", action="store_true", help="one round")
    what.add_argument("--threads", type=int, default=2, help="of every contender")
    what.add_argument("--isa", choices=("avx2",), help="hold Espalier to this instruction set (ESPALIER_ISA), beside --llamacpp-avx2 "
                      "alone: the other peers cannot be held to one")
    what.add_argument("--out", metavar="FILE", help="all figures, samples and commands as JSON")
    where = parser.add_argument_group("where")
    where.add_argument("--espalier", default=os.path.join(ROOT, "build", "espalier"), metavar="PROGRAM", help="the program")
    where.add_argument("--peers", metavar="DIR", help="where the peers are installed")
    where.add_argument("--llamacpp", metavar="DIR", help="folder of llama-bench, llama-batched-bench and llama-server; "
                       "PEERS/llamacpp/build/bin if not given")
    where.add_argument("--llamacpp-avx2", metavar="DIR", help="the same, built for AVX2, for --isa avx2")
    where.add_argument("--openvino", metavar="DIR", help="Python environment of OpenVINO GenAI; PEERS/openvino/ov if not given")
    where.add_argument("--vllm", metavar="DIR", help="Python environment of vLLM; PEERS/vllm/vllm if not given")
    where.add_argument("--models-dir", metavar="DIR", help="what make_models.py was given; PEERS/models if not given")
    where.add_argument("--workloads", default=os.path.join(ROOT, "..", "shared", "workloads"), metavar="DIR", help="the workload sets")
    where.add_argument("--log-dir", default="beside-peers-logs", metavar="DIR", help="output of the servers")
    how = parser.add_argument_group("how")
    how.add_argument("--slots", type=int, default=16, help="sequences at once in llama.cpp's server")
    how.add_argument("--context", type=int, default=4096, help="tokens of one sequence in the servers of llama.cpp and vLLM")
    how.add_argument("--online-rate", type=float, default=0.2, help=f"requests a second of {over_http.ONLINE}")
    how.add_argument("--noise", type=float, default=0.1, help="share of the processors (0..1) that strangers may use")
    how.add_argument("--timeout", type=int, default=3600, help="seconds that a command, or a request, may take")
    how.add_argument("--launch-timeout", type=int, default=600, help="seconds until a server must complete a request")
    a = parser.parse_args(words)
    a.repeat = 1 if a.quick else a.repeat
    peers = a.peers or "."
    a.llamacpp = a.llamacpp or os.path.join(peers, "llamacpp", "build", "bin")
    a.openvino = a.openvino or os.path.join(peers, "openvino", "ov")
    a.vllm = a.vllm or os.path.join(peers, "vllm", "vllm")
    a.models_dir = a.models_dir or os.path.join(peers, "models")
    try:
        a.models, a.http_models = ([models.find(name, a.models_dir) for name in text.split(",") if name]
                                   for text in (a.models, a.http_models))
    except FileNotFoundError as error:
        parser.error(str(error))
    return a


def present(everyone):
    """Those that can be measured; the others are named."""
    for contender in everyone:
        if contender.missing:
            print(f"left out: {contender.name}: {contender.missing}", flush=True)
    return [contender for contender in everyone if not contender.missing]


def cases(section, model, options, runner, everyone):
    """(load, figures, rounds) of a section, load after load."""
    if section in INSIDE:
        with_rates = [contender for contender in everyone if contender.name != "vllm"]
        for load in (load for load in in_process.LOADS if load.section == section):
            yield load.name, in_process.FIGURES, in_process.rounds_of(with_rates, model, load, options.repeat)
        return
    for load in over_http.loads(section, options):
        for name, rounds in over_http.rounds_of(everyone, model, load, options.repeat, options, runner).items():
            yield name, over_http.FIGURES, rounds


def measure(options, runner, everyone):
    """The rows of each load, as they come."""
    for section in options.only:
        for model in options.models if section in INSIDE else options.http_models:
            print(f"--- {section}, {model.name}", file=sys.stderr, flush=True)
            for load, figures, rounds in cases(section, model, options, runner, everyone):
                yield report.rows_of(section, model.name, load, figures, rounds, options.noise)


def save(path, rows, runner, limits, began):
    if not path:
        return
    with open(path, "w") as file:
        json.dump({"began": began, "machine": machine.describe(), "limits": limits, "commands": runner.commands, "rows": rows}, file,
                  indent=1)
        file.write("\n")


def main():
    options = arguments(sys.argv[1:])
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C: the servers too, and the table is printed
    began, start, runner = datetime.datetime.now().isoformat(timespec="seconds"), time.monotonic(), Runner(options.timeout)
    everyone = [kind(options, runner) for kind in (contenders.Espalier, contenders.LlamaCpp, contenders.OpenVino, contenders.Vllm)]
    if everyone[0].missing:
        sys.exit(everyone[0].missing)
    print(", ".join(f"{name} {value}" for name, value in machine.describe().items()), flush=True)
    try:
        limits = machine.limits(runner, everyone[0])
    except Failed as reason:
        sys.exit(f"the machine's limits could not be measured: {reason}")
    print("\n".join(map(machine.limit_text, limits)), flush=True)
    everyone, rows, code = present(everyone), [], 0
    try:
        for more in measure(options, runner, everyone):
            rows += more
            print("\n".join(report.table(more)), file=sys.stderr, flush=True)
            save(options.out, rows, runner, limits, began)  # after each load: a long run that is ended keeps what it has
    except KeyboardInterrupt:
        code = 130
    print("\ncommands:", *runner.commands, sep="\n  ")
    print(f"\nmedians of {options.repeat} round(s) in {(time.monotonic() - start) / 60:.0f} minutes; beside each peer: "
          "ours / theirs, median (least..most), strangers\n")
    print("\n".join(report.table(rows)))
    return code or int(any(OURS not in row["contenders"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
