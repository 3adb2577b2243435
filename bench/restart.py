#!/usr/bin/env python3
"""What a prompt costs when the server has been started anew: its prefix from disk, against computing it.

    bench/restart.py MODEL [--tokens 15000] [FLAGS of serve, e.g. --load-format dummy --dtype q4_0]

One server computes a long prompt and keeps it in --cache-dir. After its end the files leave the page cache (as root), a
second server takes them over and gets the same prompt with another question behind it. Printed: the time to the first
token both times, bytes on disk and their rate, and whether both servers say the same. Only Python's own library is needed.
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

PROGRAM = os.environ.get("ESPALIER_BINARY", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "espalier"))


def start(flags, program=PROGRAM, **more):
    """A server that is ready, and its address; `more` is the process's. Its end ends the script with what it said."""
    log = tempfile.TemporaryFile()
    began = time.monotonic()
    process = subprocess.Popen([program, "serve", *flags, "--port", "0"], stderr=log, stdout=subprocess.DEVNULL, **more)
    while True:
        log.seek(0)
        text = log.read().decode()
        found = re.search(r"ready on (https?)://[^ :]+:(\d+)", text)
        if found:
            process.said = text
            print(f"ready after {time.monotonic() - began:.2f} s", file=sys.stderr)
            return process, f"{found[1]}://127.0.0.1:{found[2]}"
        if process.poll() is not None:
            sys.exit(text)
        time.sleep(0.02)


def ask(url, ids):
    """Seconds to the first token, cached tokens, output tokens."""
    body = {"input_ids": ids, "stream": True, "sampling_params": {"temperature": 0, "max_new_tokens": 8, "ignore_eos": True}}
    request = urllib.request.Request(url + "/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
    began, first, last = time.monotonic(), None, None
    with urllib.request.urlopen(request, timeout=3600) as answer:
        for line in answer:
            if line.startswith(b"data: {"):
                first = first or time.monotonic() - began
                last = json.loads(line[6:])
    return first, last["meta_info"]["cached_tokens"], last["output_ids"]


def leave_page_cache(folder):
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                size += os.fstat(file.fileno()).st_size
    return size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=15000)
    args, flags = parser.parse_known_args()
    ids = random.Random(1)
    prompt = [ids.randrange(1000, 30000) for _ in range(args.tokens)]
    with tempfile.TemporaryDirectory() as folder:
        flags = [args.model, "--cache-dir", folder, "--cache-disk", "16G", *flags]
        process, url = start(flags)
        computed, cached, _ = ask(url, prompt + [5, 6, 7])
        print(f"computed: first token after {computed:.2f} s, {cached} of {args.tokens + 3} tokens cached")
        _, _, expected = ask(url, prompt + [8, 9])
        process.terminate()
        process.wait()
        size = leave_page_cache(folder)
        process, url = start(flags)
        restored, cached, got = ask(url, prompt + [8, 9])
        process.terminate()
        process.wait()
    print(f"after a restart: first token after {restored:.2f} s, {cached} of {args.tokens + 2} tokens cached, "
          f"{size / 1e6:.0f} MB on disk, {size / restored / 1e6:.0f} MB/s; {computed / restored:.0f} x sooner; "
          f"{'the same tokens' if got == expected else 'OTHER TOKENS'}")
    return got != expected


if __name__ == "__main__":
    sys.exit(main())
