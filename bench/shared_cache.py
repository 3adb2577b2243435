#!/usr/bin/env python3
"""What a long prompt costs on a second server that shares prefixes with the first one through Redis, against computing it.

    bench/shared_cache.py MODEL [--tokens 15000] [--url redis://HOST:PORT] [FLAGS of serve, e.g. --load-format dummy --dtype q4_0]

Without --url a Redis of its own is started (Debian: redis-tools). One server computes a long prompt and gives it to Redis while the
second one, started anew, gets it with another question behind it. Printed: the time to the first token both times and their ratio,
bytes that were moved and how fast, and whether both servers say the same; the exit code is 1 where the second takes more than
5 % of the first one's time. Only Python's own library is needed.
"""
import argparse
import pathlib
import random
import sys
import time
import urllib.request

from restart import ask, start

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "server"))
from redis_server import Redis  # noqa: E402  (beside the tests of servers)


def metric(url, name):
    for line in urllib.request.urlopen(url + "/metrics").read().decode().splitlines():
        if line.startswith(name + "{"):
            return float(line.rsplit(" ", 1)[1])
    raise SystemExit(f"there is no {name}")


def given(url, tokens):
    """Seconds until all was given to others."""
    began = time.monotonic()
    while metric(url, "espalier_remote_written_tokens_total") + metric(url, "espalier_remote_known_tokens_total") < tokens // 16 * 16:
        if time.monotonic() - began > 300:
            sys.exit("the first server did not give its prefix to Redis")
        time.sleep(0.05)
    return time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=15000)
    parser.add_argument("--url")
    args, flags = parser.parse_known_args()
    ids = random.Random(1)
    prompt = [ids.randrange(1000, 30000) for _ in range(args.tokens)]
    redis = None if args.url else Redis()
    url = args.url or f"redis://127.0.0.1:{redis.port}"
    flags = [args.model, "--no-cache-disk", "--cache-remote", url, *flags]
    servers = []
    try:
        servers.append(start(flags))
        first = servers[0][1]
        computed, cached, _ = ask(first, prompt + [5, 6, 7])
        print(f"computed: first token after {computed:.2f} s, {cached} of {args.tokens + 3} tokens cached; "
              f"with Redis {given(first, args.tokens):.2f} s later")
        _, _, expected = ask(first, prompt + [8, 9])
        servers.append(start(flags))
        second = servers[1][1]
        shared, cached, got = ask(second, prompt + [8, 9])
        size = metric(second, "espalier_remote_read_bytes_total")
        seconds = metric(second, "espalier_remote_read_seconds_total")
    finally:
        for process, _ in servers:
            process.terminate()
            process.wait()
        if redis is not None:
            redis.kill()
    share = shared / computed
    print(f"second server: first token after {shared:.2f} s ({100 * share:.1f} % of computing), {cached} of {args.tokens + 2} tokens cached, "
          f"{size / 1e6:.0f} MB from Redis in {seconds:.2f} s; {'the same tokens' if got == expected else 'OTHER TOKENS'}")
    return 1 if got != expected or share > 0.05 else 0


if __name__ == "__main__":
    sys.exit(main())
