"""A real Redis for one test, and a relay before it, or before another port, that delays, cuts, changes or holds back what it says."""
import shutil
import signal
import socket
import subprocess
import threading
import time


def redis_program():
    """Debian's redis-tools has the server under another name, without a service that would have to be installed."""
    return next(filter(None, map(shutil.which, ("redis-server", "valkey-server", "redis-check-rdb", "valkey-check-rdb"))), None)


class Redis:
    def __init__(self, *flags):
        self.flags, self.process = flags, None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", "/tmp", *self.flags],
            executable=redis_program(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                return self.ask("PING")
            except OSError:
                time.sleep(0.02)
        raise AssertionError("Redis did not start")

    def ask(self, *words):
        """The first line of the answer, or the whole of one string."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as raw:
            parts = [word.encode() if isinstance(word, str) else word for word in words]
            raw.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
            with raw.makefile("rb") as answer:
                line = answer.readline().rstrip(b"\r\n")
                if not line:
                    raise OSError("no answer")
                return answer.read(int(line[1:])) if line.startswith(b"$") and line != b"$-1" else line

    def keys(self):
        return int(self.ask("DBSIZE")[1:])

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


class Relay:
    """Passes bytes on between a client and a port. `delay`: seconds before each piece of an answer; `cut`: connections are closed after
    so many bytes of answers; `change`: one bit of every so many bytes of answers; `hold`: nothing is passed on any more."""

    def __init__(self, port):
        self.to, self.delay, self.cut, self.change, self.hold, self.passed = port, 0, None, None, False, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.to))
            except OSError:  # nobody is there yet
                client.close()
                continue
            for a, b, answers in ((client, server, False), (server, client, True)):
                threading.Thread(target=self.carry, args=(a, b, answers), daemon=True).start()

    def carry(self, a, b, answers):
        passed = 0
        try:
            while piece := a.recv(65536):
                while self.hold:
                    time.sleep(0.05)
                if answers:
                    time.sleep(self.delay)
                    passed += len(piece)
                    self.passed += len(piece)
                    if self.cut is not None and passed > self.cut:
                        b.sendall(piece[:len(piece) // 2])
                        break
                    if self.change is not None and len(piece) > 200:  # not a short answer, but what blocks are made of
                        changed = bytearray(piece)
                        changed[150::self.change] = bytes(x ^ 4 for x in changed[150::self.change])
                        piece = bytes(changed)
                b.sendall(piece)
        except OSError:
            pass
        for each in (a, b):  # the other direction's thread sees it, too
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        a.close()

    def close(self):
        self.listener.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
