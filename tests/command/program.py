"""Runs the built `espalier` as a user does: arguments, environment, limits, a pipe or a terminal; then looks at what it printed
and how it ended.

Which program, and which of the small goldens (so that a run takes a fraction of a second), the server's harness says. Nothing
here looks at the clock but to give up.
"""
import os
import pathlib
import pty
import re
import resource
import select
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "server"))
from harness import BINARY, MODEL, SOURCE, Server, expect_no_report, without_sanitizers  # noqa: E402,F401: behind the path; tests take them from here

PATIENCE = 120  # seconds; sanitizers on a busy machine are slow


def environment(**more):
    """The environment without what the caller's shell says to espalier; None takes a variable away."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ESPALIER_", "HF_"))}
    clean.update(more)
    return {name: value for name, value in clean.items() if value is not None}


def limiting(limits):
    def apply():
        for what, value in (limits or {}).items():
            resource.setrlimit(what, (value, value))
    return apply


class Ended:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def espalier(*arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=None, env=None, limits=None, cwd=None):
    """Runs to the end. `text` is what it reads on stdin."""
    if text is not None:
        stdin = None
    done = subprocess.run([BINARY, *map(str, arguments)], stdin=stdin, input=text, stdout=stdout, stderr=subprocess.PIPE,
                          env=environment(**(env or {})), preexec_fn=limiting(limits), timeout=PATIENCE, text=True, errors="replace",
                          cwd=cwd)
    expect_no_report(done.stderr)
    return Ended(done.returncode, done.stdout or "", done.stderr)


def start(*arguments, env=None, limits=None, **how):
    """Starts it and returns the process; the caller ends it."""
    return subprocess.Popen([BINARY, *map(str, arguments)], env=environment(**(env or {})), preexec_fn=limiting(limits), **how)


class Terminal:
    """The program on a terminal of its own: stdin, stdout and stderr."""

    def __init__(self, *arguments, env=None):
        self.state = tempfile.TemporaryDirectory()  # its lines of history
        self.master, slave = pty.openpty()
        self.seen = ""
        self.process = subprocess.Popen([BINARY, *map(str, arguments)], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                        preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
                                        env=environment(**{"TERM": "xterm", "XDG_STATE_HOME": self.state.name, **(env or {})}))
        os.close(slave)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.state.cleanup()
        os.close(self.master)

    def read(self, seconds):
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the other side is closed
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)

    def expect(self, pattern):
        """Waits for the pattern in what came since the last match, and returns everything up to its end."""
        end = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.seen, re.S)):
            if time.monotonic() > end or not self.read(0.2):
                raise AssertionError(f"{pattern!r} did not come; last was {self.seen[-2000:]!r}")
        upto, self.seen = self.seen[:found.end()], self.seen[found.end():]
        return upto

    def type(self, text):
        os.write(self.master, text.encode())

    def end(self):
        """Reads to the end; returns the rest of the output and the exit code."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.read(0.2):
            if self.process.poll() is not None and not select.select([self.master], [], [], 0.1)[0]:
                break
        return self.seen, self.process.wait(PATIENCE)
