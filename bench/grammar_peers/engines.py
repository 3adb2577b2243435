"""Engines as child processes that speak the line protocol, each held to limits of time and memory, so that none can stop the run."""
import json
import os
import select
import shlex
import signal
import subprocess
import time


class Failed(Exception):
    """The engine gave no answer; the text says why in a few words. It is started anew for the next question."""


class Engine:
    def __init__(self, name, command, opening, limits):
        """`opening`: requests that every start begins with; `limits`: seconds_to_start, mebibytes."""
        self.name, self.command, self.opening, self.limits = name, shlex.split(command), opening, limits
        self.process, self.rest, self.memory_at_start, self.growth, self.spent = None, b"", 0.0, 0.0, 0.0

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        os.set_blocking(self.process.stdin.fileno(), False)
        self.rest = b""
        for request in self.opening:
            reply = self.exchange(request, self.limits["seconds_to_start"])
            if not reply["ok"]:
                self.stop()
                raise Failed(reply["error"])
        self.memory_at_start = self.memory("VmRSS")

    def ask(self, seconds, **request):
        """The reply. The time counts as spent, that of starting anew after a failure too."""
        began = time.monotonic()
        try:
            if self.process is None:
                self.start()
            return self.exchange(request, seconds)
        finally:
            self.spent += time.monotonic() - began

    def exchange(self, request, seconds):
        deadline = time.monotonic() + seconds
        try:
            self.send((json.dumps(request, ensure_ascii=False) + "\n").encode(), deadline)
            while b"\n" not in self.rest:
                self.rest += self.more(deadline)
        except (BrokenPipeError, Failed) as reason:
            self.stop()
            raise Failed(str(reason)) from None
        line, _, self.rest = self.rest.partition(b"\n")
        self.growth = max(self.growth, self.memory("VmHWM") - self.memory_at_start if self.memory_at_start else 0.0)
        return json.loads(line)

    def send(self, data, deadline):
        while data:
            _, ready, _ = select.select([], [self.process.stdin], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise Failed("time limit")
            data = data[os.write(self.process.stdin.fileno(), data[:65536]):]

    def more(self, deadline):
        ready, _, _ = select.select([self.process.stdout], [], [], min(0.2, max(0.0, deadline - time.monotonic())))
        if ready:
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                raise Failed("process ended")
            return data
        if time.monotonic() >= deadline:
            raise Failed("time limit")
        if self.memory("VmRSS") > self.limits["mebibytes"]:
            raise Failed("memory limit")
        return b""

    def memory(self, what):
        try:
            with open(f"/proc/{self.process.pid}/status") as file:
                return next(int(line.split()[1]) / 1024 for line in file if line.startswith(what))
        except (OSError, StopIteration):
            return 0.0

    def stop(self):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process = None
