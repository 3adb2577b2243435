"""A step that hangs, a process that dies: what the log says then, and what it keeps to itself."""
import contextlib
import ctypes
import os
import pathlib
import platform
import re
import signal
import subprocess
import time
import unittest

from harness import BINARY, Server, eventually, without_sanitizers

SECRET = "nobody-else-reads-this"
LONG = {"text": SECRET, "stream": True, "sampling_params": {"temperature": 0, "max_new_tokens": 400, "ignore_eos": True}}
PTRACE_GETREGS, PTRACE_SETREGS, PTRACE_ATTACH, PTRACE_DETACH = 12, 13, 16, 17
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def thread_named(process, name):
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            return int(task.name)
    raise AssertionError(f"no thread {name} in {[(t / 'comm').read_text() for t in pathlib.Path(f'/proc/{process.pid}/task').iterdir()]}")


class Held:
    """One thread of a process, stopped as a debugger stops it while all others go on."""

    def __init__(self, thread):
        self.thread = thread
        if libc.ptrace(PTRACE_ATTACH, thread, None, None) != 0:
            raise unittest.SkipTest(f"threads of a child cannot be stopped here: {os.strerror(ctypes.get_errno())}")
        os.waitpid(thread, 0x40000000)  # __WALL

    def release(self):
        libc.ptrace(PTRACE_DETACH, self.thread, None, None)

    def take_its_stack_away(self):
        """Its stack pointer is where nothing is, as behind the end of a stack that is used up (x86-64)."""
        registers = (ctypes.c_ulong * 27)()
        assert libc.ptrace(PTRACE_GETREGS, self.thread, None, ctypes.addressof(registers)) == 0
        registers[19] = 64  # rsp
        assert libc.ptrace(PTRACE_SETREGS, self.thread, None, ctypes.addressof(registers)) == 0


class Hanging(unittest.TestCase):
    def test_a_step_that_hangs_is_told_with_what_every_thread_waits_for(self):
        server = Server("--watchdog-timeout", "3")
        self.addCleanup(server.kill)
        server.generate(text="a", sampling_params={"temperature": 0, "max_new_tokens": 50, "ignore_eos": True})
        held = Held(thread_named(server.process, "esp-engine"))
        self.addCleanup(server.open_stream("/generate", LONG).close)
        try:
            eventually(lambda: "no step came to its end" in server.text(), True, 20)
            eventually(lambda: server.get("/health").status, 503, 20)
            self.assertEqual(server.get("/livez").status, 200)
        finally:
            held.release()
        text = server.text()
        self.assertRegex(text, r"\d requests run and \d wait, but no step came to its end for 1\.0 s, where \S+ s were expected")
        self.assertRegex(text, r"thread \d+ esp-engine: is in state t, .*\n +\(it does not say where it is\)")
        self.assertRegex(text, r"thread \d+ esp-io\S*: sleeps, .*epoll_wait \(sockets\)")
        self.assertRegex(text, r" {4,}\S*espalier\(.*\+0x[0-9a-f]+\)")  # a place, for addr2line
        self.assertNotIn(SECRET, text)
        eventually(lambda: server.get("/health").status, 200, 20)
        self.assertEqual(server.get("/health").status, 200)
        self.assertEqual(server.text().count("no step came to its end"), 1, "a step is told once")

    def test_slow_steps_are_no_hanging_ones(self):
        """A prompt in one step of many rows takes longer than a step that decodes: that is expected of it."""
        with Server("--chunked-prefill-size", "4096") as server:
            for _ in range(3):
                server.generate(text="a", sampling_params={"temperature": 0, "max_new_tokens": 20, "ignore_eos": True})
                server.generate(input_ids=[int(time.time()) % 300] * 400, sampling_params={"max_new_tokens": 1})
            self.assertNotIn("no step came to its end", server.text())

    def test_sigusr1_asks_for_the_same(self):
        with Server() as server:
            server.process.send_signal(signal.SIGUSR1)
            eventually(lambda: len(re.findall(r"^ *thread \d+ ", server.text(), re.M)) >= 4, True)
            self.assertEqual(server.get("/health").status, 200)


@without_sanitizers  # they have handlers of their own
class Crashing(unittest.TestCase):
    def crash(self, number):
        server = Server("--max-running-requests", "2")
        self.addCleanup(server.kill)
        server.post("/generate", {"text": "over", "sampling_params": {"max_new_tokens": 1}}, headers={"x-request-id": "long-gone"})
        for i in range(200):  # a small model is quick: two at a time, of so many some still run or wait
            self.addCleanup(server.open_stream("/generate", LONG, headers={"x-request-id": f"one-of-{i}"}).close)
        os.kill(server.process.pid, number)
        self.assertEqual(server.process.wait(30), -number)
        text = server.text()
        server.log.close()  # it has crashed, and was to
        return text[text.index("\nespalier "):]

    def test_a_crash_leaves_the_stack_and_who_was_served_and_no_text(self):
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
            told = self.crash(number)
            self.assertRegex(told, rf"^\nespalier \S+ crashed: {number.name}.* in thread \S+\n")
            running = re.search(r"^requests that ran: (.*)$", told, re.M)[1]
            self.assertGreater(len(running.split(", ")), 1, told)
            self.assertTrue(all(name.startswith("one-of-") for name in running.split(", ")), running)
            self.assertNotIn(SECRET, told)
            places = re.findall(r"^\S*espalier\(\S*\+(0x[0-9a-f]+)\)", told, re.M)
            self.assertTrue(places, told)

    @unittest.skipUnless(platform.machine() == "x86_64", "registers are named as on x86-64")
    def test_a_thread_without_stack_is_reported_too(self):
        for name in ("esp-engine", "esp-light", "esp-io-0", "esp-text-0"):
            server = Server("--side-threads", "1")
            self.addCleanup(server.kill)
            held = Held(thread_named(server.process, name))
            held.take_its_stack_away()
            held.release()
            with contextlib.suppress(OSError):  # it may be gone already
                self.addCleanup(server.open_stream("/generate", LONG, headers={"x-request-id": "the-one"}).close)
            self.assertEqual(server.process.wait(30), -signal.SIGSEGV)
            text = server.text()
            server.log.close()
            self.assertRegex(text, rf"crashed: SIGSEGV at address 0x\S+ in thread {name}\nrequests that ran: (the-one|none)\nstack")

    def test_places_can_be_named(self):
        told = self.crash(signal.SIGSEGV)
        places = re.findall(r"^\S*espalier\(\+?(\S*0x[0-9a-f]+)\)", told, re.M)
        try:
            named = subprocess.run(["addr2line", "-Cfe", BINARY, *[p for p in places if p.startswith("0x")]], capture_output=True, text=True).stdout
        except FileNotFoundError:
            self.skipTest("addr2line is not installed here")
        self.assertRegex(named, r"espalier|main|start", told)


if __name__ == "__main__":
    unittest.main()
