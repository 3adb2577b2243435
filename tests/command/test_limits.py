"""What the system refuses ends in a sentence and the exit code for it, never in a signal: threads, address space, descriptors."""
import re
import resource
import subprocess
import tempfile
import unittest

from program import MODEL, espalier, start, without_sanitizers

GIB = 1 << 30
STACK = 8 * GIB  # of every thread, less than the machine has: address space for `n` stacks lets exactly `n` threads start


def room_for(threads):
    return {resource.RLIMIT_STACK: STACK, resource.RLIMIT_AS: threads * STACK + 7 * GIB}


@without_sanitizers
class Threads(unittest.TestCase):
    def test_every_thread_that_cannot_start_ends_run_with_a_sentence(self):
        for count in range(8):
            ended = espalier("run", MODEL, "hello", "-n", "2", "--threads", "3", limits=room_for(count))
            if ended.code == 0:
                self.assertEqual(count, 3, "two compute threads beside the engine's own, and the engine's")
                return
            self.assertEqual(ended.code, 4, ended)
            self.assertRegex(ended.err, r"espalier: the (compute|engine's) thread could not be started .*ulimit -u")
        self.fail("run never had enough threads")

    def test_every_thread_that_cannot_start_ends_serve_with_a_sentence(self):
        sentences = set()
        for count in range(32):
            with tempfile.TemporaryFile() as log:
                process = start("serve", MODEL, "--port", "0", "--threads", "2", limits=room_for(count), stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=log)
                try:
                    code = None
                    while code is None:
                        try:
                            code = process.wait(0.1)
                        except subprocess.TimeoutExpired:
                            log.seek(0)
                            if b"espalier: ready on" in log.read():
                                break
                    log.seek(0)
                    text = log.read().decode()
                finally:
                    process.kill()
                    process.wait()
            if code is None:
                self.assertGreaterEqual(len(sentences), 4, sentences)
                return
            self.assertEqual(code, 4, f"{count} threads: {text}")
            sentences.add(re.search(r"espalier: the (\S+) thread could not be started .*ulimit -u", text)[1])
        self.fail("serve never had enough threads")

    def test_bench_says_so_too(self):
        ended = espalier("bench", "latency", MODEL, "--input-len", "4", "--output-len", "2", "--threads", "2", limits=room_for(0))
        self.assertEqual(ended.code, 4, ended)
        self.assertIn("compute thread could not be started", ended.err)


class ThreadCounts(unittest.TestCase):
    def test_more_threads_than_any_machine_has_are_refused(self):
        for verb in (("run", MODEL, "hello"), ("serve", MODEL, "--port", "0"), ("bench", "latency", MODEL), ("bench", "offline", MODEL)):
            ended = espalier(*verb, "--threads", "99999")
            self.assertEqual(ended.code, 2, ended)
            self.assertRegex(ended.err, "espalier: --threads is 99999, but it must be 0 to 1024")

    def test_more_threads_than_processors_are_a_warning(self):
        ended = espalier("run", MODEL, "hello", "-n", "1", "--threads", "500")
        self.assertEqual(ended.code, 0, ended)
        self.assertIn("more than four times", ended.err)


if __name__ == "__main__":
    unittest.main()
