"""Starts the built `espalier serve` on a golden model and talks to it over real sockets.

ESPALIER_BINARY names the program (ctest sets it); ESPALIER_SOURCE_DIR the checkout. Ports are free ones, everything is on
127.0.0.1, and every server is stopped by its own process id.
"""
import http.client
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

SOURCE = pathlib.Path(os.environ.get("ESPALIER_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("ESPALIER_BINARY", str(SOURCE / "build" / "espalier"))
MODEL = SOURCE / "tests" / "data" / "goldens" / "models" / "llama3-tied-gqa"
GOLDEN = json.loads((MODEL / "golden.json").read_text())
VOCABULARY = 320
PATIENCE = 600 if os.environ.get("ESPALIER_DEVICE") == "emu" else 60  # seconds for an answer: emulated devices are slow
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
REPORT = re.compile(r"(Address|Leak|Thread)Sanitizer|:\d+:\d+: runtime error: ")


def sanitized():
    """Sanitizers reserve terabytes of addresses and keep what was freed, so limits on memory cannot be tried with them."""
    program = pathlib.Path(BINARY)
    data = program.read_bytes() if program.exists() else b""
    return b"__asan_init" in data or b"__tsan_init" in data


without_sanitizers = unittest.skipIf(sanitized(), "a sanitizer needs more address space than this test allows")


def expect_no_report(text):
    """A program that goes on after a race, or is killed in the end, has no exit code to tell of it: what it printed does."""
    if REPORT.search(text):
        raise AssertionError(f"a sanitizer reported:\n{text}")


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def events(self):
        """The data of every server-sent event; "[DONE]" stays text."""
        data = [line[6:] for line in self.body.decode().split("\n") if line.startswith("data: ")]
        return [d if d == "[DONE]" else json.loads(d) for d in data]


def children_of(pid):
    """Also those that its other threads started."""
    tasks = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def descendants_of(pid):
    found = children_of(pid)
    return found + [below for child in found for below in descendants_of(child)]


class Server:
    """A running server; use as a context manager. `launcher`: words before its command, of what starts it (mpirun, ip netns exec)."""

    def __init__(self, *flags, model=MODEL, wait=True, limits=None, stdin=subprocess.DEVNULL, stderr=None, env=None, launcher=()):
        self.log = tempfile.TemporaryFile()
        self.launched = bool(launcher)
        command = [*launcher, BINARY, "serve", str(model), "--port", "0", "--threads", "1", "--activations", "f32", *flags]

        def restrict():
            for what, value in (limits or {}).items():
                resource.setrlimit(what, (value, value))

        self.process = subprocess.Popen(command, stderr=stderr or self.log, stdout=self.log if launcher else subprocess.DEVNULL, stdin=stdin,
                                        preexec_fn=restrict, env={**os.environ, **(env or {})})
        self.port = None
        if wait:
            self.wait_ready()

    def text(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def wait_ready(self, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = re.search(r"espalier: ready on https?://127\.0\.0\.1:(\d+)", self.text())
            if found:
                self.port = int(found.group(1))
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        text = self.text()
        self.kill()
        raise AssertionError(f"the server did not become ready (exit {self.process.returncode}):\n{text}")

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        if failure and not self.log.closed:  # what the server was doing is half of the answer to why
            print(f"the server (exit code {self.process.poll()}) had said:\n{self.text()[-2000:]}")
        self.kill()

    def kill(self):
        """The end of every server, also of one that ended before: it must not have crashed, and no sanitizer have reported."""
        if self.log.closed:
            return
        died = self.process.poll()
        if died is None:
            others = descendants_of(self.process.pid) if self.launched else []
            self.process.kill()
            for pid in others:  # whoever started them may leave them behind
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.process.wait()
        text = self.text()
        self.log.close()
        expect_no_report(text)
        if died is not None and -died in CRASHES:
            raise AssertionError(f"the server crashed with signal {-died}:\n{text}")

    def stop(self, number=signal.SIGTERM, seconds=40):
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def connect(self, timeout=PATIENCE):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None, timeout=PATIENCE):
        connection = self.connect(timeout)
        try:
            sent = dict(headers or {})
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
                sent.setdefault("Content-Type", "application/json")
            connection.request(method, path, body=body, headers=sent)
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body, **more):
        return self.request("POST", path, body, **more)

    def generate(self, **body):
        reply = self.post("/generate", body)
        assert reply.status == 200, reply.body
        return reply.json

    def open_stream(self, path, body, headers=None):
        """Sends a request and returns the raw socket, to be read slowly or closed early."""
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        for name, value in (headers or {}).items():
            head += f"{name}: {value}\r\n"
        raw.sendall(head.encode() + b"\r\n" + data)
        return raw

    def metric(self, name):
        for line in self.get("/metrics").body.decode().splitlines():
            if line.startswith(name + "{") or line.startswith(name + " "):
                return float(line.rsplit(" ", 1)[1])
        return None

    def wait_metric(self, name, value, seconds=10):
        eventually(lambda: self.metric(name), value, seconds, name)


def eventually(found, wanted, seconds=10, what="what was found"):
    """Waits until found() is `wanted`: for what a server does behind its answer."""
    end = time.monotonic() + seconds
    while (now := found()) != wanted:
        if time.monotonic() > end:
            raise AssertionError(f"{what} is {now}, not {wanted}")
        time.sleep(0.02)


class ServerCase(unittest.TestCase):
    """Tests that share one server, started with these flags."""
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.FLAGS)
        cls.addClassCleanup(cls.server.kill)


def in_parallel(count, work):
    """Runs work(i) on as many threads and returns what they return, in order."""
    results = [None] * count

    def run(i):
        try:
            results[i] = work(i)
        except BaseException as failure:  # handed to the caller
            results[i] = failure

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results
