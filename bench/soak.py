#!/usr/bin/env python3
"""Soaks the built server: hours of everything at once, and nothing that it holds may grow.

    bench/soak.py [--hours 8] [--share 0.33] [--out build/soak] [--figure docs/figures/soak.svg]
    bench/soak.py --judge build/soak/samples.csv [--figure FILE]      judges and draws samples that are there

Six tiny models (tests/data/goldens), four in memory at once, behind one real server with small caches; clients (soaking/traffic.py)
ask in every dialect, with ever new schemas and regexes, pictures, tools, programs, sessions, batches, adapters; they unload models, leave
in the middle of streams, send half of a request. Server and clients together use `--share` of one core. Each sample is a row of
OUT/samples.csv (soaking/watch.py: memory, descriptors, threads, files, cache, models, outcomes, p50 and p99 of requests since the row before);
once a minute a line is printed.

Every two minutes it comes to rest: clients wait, all models are unloaded, and a row is taken that is not moved by which models are in memory.

Exit code 1 when at the end, behind a warm-up of the first quarter, in which caches fill:
- the server's memory grew by more than 2 % of itself, its descriptors by more than 2, its threads by more than 1, under load or at rest, or
  its files by more than 8 MiB: surely, that is with the lower end of a 95 % interval (soaking/flatness.py);
- any answer was wrong: a status that the request does not allow, a broken connection, an error inside a stream;
- the server ended, or did not stop when it was told to.
So the longer the run, the less growth an hour is let through: 2 % in six hours of the eight.
Linux (/proc); nothing but Python's own library.
"""
import argparse
import math
import os
import pathlib
import shutil
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "tests" / "server"), str(ROOT / "tests" / "grammar")]
import harness  # noqa: E402: behind the path, like the others
from soaking import picture, traffic, watch  # noqa: E402
from soaking.flatness import Criterion  # noqa: E402
from test_lora import some_adapter  # noqa: E402

WARM_UP = 0.25
REST_SECONDS = 120
CRITERIA = (*(Criterion(column, unit, allowed, share, at_rest) for at_rest in (False, True)
              for column, unit, allowed, share in (("rss_mib", "MiB", 0, 0.02), ("descriptors", "", 2, 0), ("threads", "", 1, 0))),
            Criterion("disk_mib", "MiB", allowed=8))
GOLDENS = ROOT / "tests" / "data" / "goldens" / "models"
FOLDERS = {"chat": "llama3-tied-gqa", "qwen": "qwen3-tied", "mamba": "n26-mamba2", "gemma": "gemma3-text", "seeing": "mm-gemma3",
           "embed": "emb-text-minilm"}
# Small enough to be full within minutes, so that what is bounded is at its bound when the warm-up ends.
FLAGS = ("--max-loaded-models", "4", "--max-total-tokens", "8192", "--cache-disk", "16M", "--grammar-cache", "16M", "--picture-cache", "2",
         "--mm-cache-size", "2M", "--max-loaded-loras", "2", "--admin-api-key", "boss", "--tool-call-parser", "hermes")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=8)
    parser.add_argument("--share", type=float, default=0.33, help="of one core, for server and clients together")
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--every", type=float, default=5, help="seconds between samples")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--espalier", default=None, help="the program (build/espalier)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "soak")
    parser.add_argument("--figure", type=pathlib.Path, default=None, help="where the picture goes (OUT/soak.svg)")
    parser.add_argument("--judge", type=pathlib.Path, default=None, metavar="SAMPLES.csv")
    a = parser.parse_args()
    if a.hours <= 0 or a.share <= 0 or a.clients < 1 or a.every <= 0:
        parser.error("--hours, --share, --clients and --every must be above 0")
    return a


def start(program, work):
    """The server, and the folders that it writes to."""
    if program:
        harness.BINARY = program
    adapters = [f"--lora-paths={name}={some_adapter(work / name, seed)}" for seed, name in enumerate(traffic.ADAPTERS)]
    first, *others = (f"{name}={GOLDENS / folder}" for name, folder in FOLDERS.items())
    folders = [work / "data", work / "cache"]
    models = [word for other in others for word in ("--model", other)]
    return harness.Server(*FLAGS, *models, *adapters, "--data-dir", str(folders[0]), "--cache-dir", str(folders[1]), model=first), folders


def client(port, seen, seed, pace, gate, over):
    one = traffic.Client(port, seen, seed)
    while not over.is_set():
        pace.wait(over)
        with gate:
            if not over.is_set():
                one.one()
    one.hang_up()


def rest(server):
    """No client asks: all models leave, and what the process still holds stays."""
    for name in traffic.MODELS:
        server.post("/models/unload", {"model": name}, headers=traffic.ADMIN)
    harness.eventually(lambda: watch.summed(server.get("/metrics").body.decode(), "espalier_model_loaded"), 0, 60, "the number of models in memory")
    time.sleep(1)


def minute(row, faults):
    print(f"{row['seconds'] / 60:6.1f} min  {row['requests']:8} requests ({row['refused']} refused, {row['cut']} cut, {row['wrong']} wrong)  "
          f"p50 {row['p50_ms']:.1f} p99 {row['p99_ms']:.1f} ms  resident {row['rss_mib']:.1f} MiB  {row['descriptors']} descriptors  "
          f"{row['threads']} threads  {row['models_loaded']:.0f} models, {row['model_loads']:.0f} loads  {100 * row['cpu_share']:.0f} % of a core", flush=True)
    for fault in faults:
        print("  wrong:", fault, flush=True)


def soak(a, seed):
    """Runs the load and writes the samples; a list of what went wrong."""
    a.out.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="espalier-soak-"))
    over, seen, gate = threading.Event(), watch.Seen(), watch.Gate()
    server, folders = start(a.espalier, work)
    try:
        look = watch.Watch(server, seen, folders)
        pace = watch.Pace(a.share, look.cpu)
        threads = [threading.Thread(target=client, args=(server.port, seen, f"{seed}/{i}", pace, gate, over)) for i in range(a.clients)]
        for thread in threads:
            thread.start()
        try:
            sample(a, look, seen, gate)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        wrong = [f"{seen.outcomes['wrong']} wrong answers, such as {seen.faults[:3]}"] if seen.outcomes["wrong"] else []
        code = server.stop()
        return wrong + ([f"the server ended with exit code {code}"] if code else [])
    finally:
        (a.out / "server.log").write_text(server.text()[-1_000_000:] if not server.log.closed else "")
        server.kill()
        shutil.rmtree(work, ignore_errors=True)
        print("\n".join(traffic.told(seen)))


def sample(a, look, seen, gate):
    end, next_minute, next_rest, told = look.began + a.hours * 3600, 0.0, look.began + REST_SECONDS, 0
    with open(a.out / "samples.csv", "w", encoding="ascii") as csv:
        print(",".join(watch.COLUMNS), file=csv, flush=True)
        while (now := time.monotonic()) < end:
            time.sleep(min(a.every, end - now))
            row = look.sample()
            print(watch.as_line(row), file=csv, flush=True)
            if time.monotonic() >= next_rest:
                with gate.closed():
                    rest(look.server)
                    print(watch.as_line(look.sample(at_rest=True)), file=csv, flush=True)
                next_rest += REST_SECONDS
            if row["seconds"] >= next_minute:
                minute(row, seen.faults[told:])
                told = len(seen.faults)
                next_minute += 60


def judge(columns):
    """Prints what every criterion comes to; what is not flat."""
    verdicts = [(criterion.name, criterion.judge(columns, WARM_UP)) for criterion in CRITERIA]
    for name, verdict in verdicts:
        print(verdict or f"{name}: not judged, no row was taken so; {REST_SECONDS} seconds pass between two rests")
    return [f"{name} is not flat" for name, verdict in verdicts if verdict and not verdict.flat]


def title(columns):
    share = [value for value in columns["cpu_share"] if math.isfinite(value)]
    return (f"{columns['seconds'][-1] / 3600:.1f} hours, {columns['requests'][-1]:,.0f} requests, {columns['model_loads'][-1]:,.0f} model loads, "
            f"{100 * sum(share) / len(share):.0f} % of one core")


def main():
    a = arguments()
    failed = []
    if a.judge is None:
        seed = a.seed if a.seed is not None else int.from_bytes(os.urandom(4))
        print(f"soak: {a.hours:g} hours, seed {seed}, samples in {a.out / 'samples.csv'}", flush=True)
        failed = soak(a, seed)
    columns = watch.read_csv(a.judge or a.out / "samples.csv")
    if not columns["seconds"]:
        raise SystemExit("soak: there are no samples; give it more time (--hours)")
    failed += judge(columns)
    figure = a.figure or a.out / "soak.svg"
    figure.write_text(picture.draw(columns, title(columns), WARM_UP))
    print(f"soak: drawn to {figure}")
    for fault in failed:
        print("soak:", fault)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
