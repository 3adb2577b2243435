#!/usr/bin/env python3
"""What serving costs beside the model: a model that costs next to nothing, many streams at once, the real server.

    bench/http_cost.py [--streams 256] [--seconds 10] [--only streams,tls,idle,delay] [FLAGS of serve ...]

The model is made here: one layer of 16 channels, and a vocabulary whose tokens are all text, so that every token is an event of its
own. The client is the program stream_reader_bench (tools/build.sh release stream_reader_bench), which counts events of chat
completions and reads nothing else of them. Both share this machine's processors, so beside tokens a second stand the processor
seconds that server and client took, by thread of the server.

    streams   tokens a second over so many connections, and what a token costs
    tls       the same over HTTPS, in alternation with plain HTTP
    idle      resident memory for 5,000 connections that were asked something once and then wait
    delay     from a sampled token to its bytes in the socket, at 64 streams, as /metrics tells it: with the model that costs nothing, and
              with one whose steps take some milliseconds of all processors; beside what 64 bare sends take

Only Python's own library, and the openssl program for tls, are needed.
"""
import argparse
import json
import os
import pathlib
import re
import resource
import select
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from restart import start  # it lies beside this file

ROOT = pathlib.Path(__file__).resolve().parents[1]
READER = str(ROOT / "build" / "release" / "bin" / "stream_reader_bench")
TOKENIZER = ROOT / "tests" / "data" / "goldens" / "models" / "llama3-tied-gqa"
DELIVERY = "espalier_token_delivery_seconds"
TICKS = os.sysconf("SC_CLK_TCK")
SHAPE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
         "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
         "rope_theta": 10000.0, "tie_word_embeddings": True, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2}
SLOW = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 4,
        "head_dim": 64}


def make_model(folder, **shape):
    """A golden's tokenizer without the tokens that are no whole text, and a shape for random weights."""
    folder.mkdir()
    words = json.loads((TOKENIZER / "tokenizer.json").read_text())
    special = {token["content"] for token in words["added_tokens"]}
    is_text = lambda token: token in special or all(c in "ĠĊ" or "!" <= c <= "~" for c in token)  # noqa: E731
    kept = [token for token, _ in sorted(words["model"]["vocab"].items(), key=lambda item: item[1]) if is_text(token)]
    words["model"]["vocab"] = {token: i for i, token in enumerate(kept)}
    words["model"]["merges"] = [merge for merge in words["model"]["merges"]
                                if "".join(merge if isinstance(merge, list) else merge.split(" ")) in words["model"]["vocab"]]
    assert all(words["model"]["vocab"][token["content"]] == token["id"] for token in words["added_tokens"])
    (folder / "tokenizer.json").write_text(json.dumps(words))
    (folder / "tokenizer_config.json").write_text((TOKENIZER / "tokenizer_config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**SHAPE, "vocab_size": len(kept), **shape}))
    return folder


def make_certificate(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2", "-nodes",
                    "-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem",
                    "-out", folder / "cert.pem"], check=True, capture_output=True)
    return "--ssl-certfile", str(folder / "cert.pem"), "--ssl-keyfile", str(folder / "key.pem")


class Server:
    def __init__(self, model, *flags):
        self.process, self.url = start([str(model), "--load-format", "dummy", *flags])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def processor_seconds(self):
        """By thread's name, user and system."""
        found = {}
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            name, fields = re.fullmatch(r"\d+ \((.*)\) (.*)\n", (task / "stat").read_text(), re.S).groups()
            fields = fields.split()
            user, system = found.get(name, (0, 0))
            found[name] = (user + int(fields[11]) / TICKS, system + int(fields[12]) / TICKS)
        return found

    def resident_bytes(self):
        pages = int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def histogram(self, name):
        """Counts of what lies below each bound, by bound."""
        text = urllib.request.urlopen(self.url + "/metrics", timeout=60).read().decode()
        rows = re.findall(rf'^{name}_bucket{{[^}}]*le="([^"]+)"}} (\S+)$', text, re.M)
        return {float(bound): float(count) for bound, count in rows}


def body_of(server, tokens):
    return json.dumps({"messages": [{"role": "user", "content": "the"}], "stream": True, "temperature": 0,
                       "max_tokens": tokens, "ignore_eos": True, "skip_special_tokens": False})


def read_streams(server, args, streams, seconds, delay=False):
    """What the client counted, and what the server's threads took meanwhile."""
    environment = {**os.environ, "SSL_CERT_FILE": str(args.folder / "cert.pem")} if server.url.startswith("https") else None
    client = subprocess.Popen([READER, server.url + "/v1/chat/completions", body_of(server, args.tokens), str(streams), str(seconds), "2"],
                              stdout=subprocess.PIPE, text=True, env=environment)
    assert client.stdout.readline() == "begin\n"
    before, counted = server.processor_seconds(), server.histogram(DELIVERY) if delay else {}
    told = json.loads(client.stdout.readline())
    after = server.processor_seconds()
    told["delays"] = {bound: count - counted[bound] for bound, count in server.histogram(DELIVERY).items()} if delay else {}
    if client.wait() != 0:
        sys.exit("the client failed")
    told["tokens"] = told["events"] - 2 * told["streams"]  # a stream's first event has the role, its last one is [DONE]
    told["threads"] = {name: [now - then for now, then in zip(spent, before.get(name, (0, 0)))] for name, spent in after.items()}
    told["server_seconds"] = sum(map(sum, told["threads"].values()))
    return told


def tell(label, told):
    tokens, seconds = told["tokens"], told["seconds"]
    print(f"{label}: {tokens / seconds:,.0f} tokens/s, {told['bytes'] / told['events']:.0f} bytes an event; for 1,000 tokens the server took "
          f"{1e6 * told['server_seconds'] / tokens:.1f} ms of processors, the client {1e6 * told['cpu_seconds'] / tokens:.1f} ms; "
          f"busy: server {told['server_seconds'] / seconds:.2f}, client {told['cpu_seconds'] / seconds:.2f} processors")
    for name, (user, system) in sorted(told["threads"].items(), key=lambda item: -sum(item[1])):
        if user + system > 0.005 * told["server_seconds"]:
            print(f"    {name:16} {100 * (user + system) / told['server_seconds']:5.1f} %   {1e6 * user / tokens:6.2f} us user, "
                  f"{1e6 * system / tokens:6.2f} us system a token")


def measure_streams(args):
    with Server(args.model, *args.flags) as server:
        tell(f"{args.streams} streams", read_streams(server, args, args.streams, args.seconds))


def measure_tls(args):
    secure = make_certificate(args.folder)
    costs = {"http": [], "https": []}
    for _ in range(3):
        for name, more in (("http", ()), ("https", secure)):
            with Server(args.model, *args.flags, *more) as server:
                told = read_streams(server, args, args.streams, args.seconds / 3)
                costs[name].append((told["server_seconds"] / told["tokens"], told["tokens"] / told["seconds"]))
                tell(f"{args.streams} streams over {name}", told)
    middle = lambda values: sorted(values)[len(values) // 2]  # noqa: E731
    cost, rate = ({name: middle([each[i] for each in found]) for name, found in costs.items()} for i in (0, 1))
    print(f"TLS: the server's processor time a token {100 * (cost['https'] / cost['http'] - 1):+.1f} %, tokens/s "
          f"{100 * (rate['https'] / rate['http'] - 1):+.1f} % (medians of 3)")


def measure_idle(args):
    count = 5000
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    with Server(args.model, *args.flags, "--max-connections", str(count + 100)) as server:
        port = int(server.url.rsplit(":", 1)[1])
        urllib.request.urlopen(server.url + "/health", timeout=60).read()
        before = server.resident_bytes()
        held = []
        for i in range(count):
            held.append(socket.create_connection(("127.0.0.1", port), timeout=60))
            held[-1].sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        for each in held:
            answer = each.recv(4096)
            assert answer.startswith(b"HTTP/1.1 200"), answer
        time.sleep(1)
        grown = server.resident_bytes() - before
        print(f"{count} idle connections: {before / 1e6:.1f} MB resident before, {grown / 1e6:.1f} MB more with them, "
              f"{grown / count:,.0f} bytes each")


def quantile(counts, share):
    """Linear within its bucket, as Prometheus' histogram_quantile."""
    wanted, below, low = share * counts[float("inf")], 0.0, 0.0
    for bound, count in sorted(counts.items()):
        if count >= wanted:
            return low if bound == float("inf") else low + (bound - low) * (wanted - below) / max(count - below, 1e-9)
        below, low = count, bound
    return low


def read_for_ever(sockets):
    waiting = select.epoll()
    for each in sockets:
        waiting.register(each.fileno(), select.EPOLLIN)
    while True:
        for descriptor, _ in waiting.poll():
            if not os.read(descriptor, 65536):
                os._exit(0)


def bare_sends(count, rounds=200, pause=0.05, event=b"x" * 190):
    """Seconds that so many sends of an event take after a pause, one after another, to a process that reads: what a delay cannot fall below."""
    with socket.create_server(("127.0.0.1", 0), backlog=count) as server:
        ours = [socket.create_connection(server.getsockname()) for _ in range(count)]
        theirs = [server.accept()[0] for _ in range(count)]
    child = os.fork()
    if child == 0:
        for each in ours:
            each.close()
        read_for_ever(theirs)
    for each in ours:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    took = []
    for _ in range(rounds):
        time.sleep(pause)
        began = time.perf_counter()
        for each in ours:
            each.send(event)
        took.append(time.perf_counter() - began)
    for each in ours + theirs:
        each.close()
    os.waitpid(child, 0)
    return sorted(took)


def measure_delay(args):
    took = bare_sends(64)
    at = lambda share: 1000 * took[int(share * len(took))]  # noqa: E731
    print(f"64 bare sends one after another, every 50 ms, nothing else running: p50 {at(0.5):.3f} ms, p90 {at(0.9):.3f} ms, p99 {at(0.99):.3f} ms")
    slow = make_model(args.folder / "slow", **SLOW)
    for label, model in (("nothing", args.model), ("some milliseconds", slow)):
        with Server(model, *args.flags) as server:
            told = read_streams(server, args, 64, args.seconds, delay=True)
            counts = told["delays"]
            steps = server.histogram("espalier_engine_step_seconds")
            shares = ", ".join(f"p{100 * share:g} {1000 * quantile(counts, share):.3f} ms" for share in (0.5, 0.9, 0.99, 0.999))
            print(f"64 streams, a model that costs {label} (median step {1000 * quantile(steps, 0.5):.1f} ms): "
                  f"{told['tokens'] / told['seconds']:,.0f} tokens/s; from sampled to sent: {shares}")


PARTS = {"streams": measure_streams, "tls": measure_tls, "idle": measure_idle, "delay": measure_delay}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--tokens", type=int, default=500, help="of each stream")
    parser.add_argument("--only", default=",".join(PARTS))
    args, flags = parser.parse_known_args()
    args.flags = ["--max-running-requests", str(args.streams), "--max-connections-per-address", "0", *flags]
    with tempfile.TemporaryDirectory() as folder:
        args.folder = pathlib.Path(folder)
        args.model = make_model(args.folder / "model")
        for part in args.only.split(","):
            PARTS[part](args)


if __name__ == "__main__":
    main()
