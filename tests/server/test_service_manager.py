"""What systemd and the server tell each other: the notify socket, sockets that were opened for it, the units we ship."""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from harness import BINARY, MODEL, SOURCE, Server, eventually

SHORT = {"input_ids": [1], "sampling_params": {"temperature": 0, "max_new_tokens": 4, "ignore_eos": True}}


class Manager:
    """The service manager's end of the notify socket."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = str(pathlib.Path(self.folder.name) / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.heard = []

    def close(self):
        self.socket.close()
        self.folder.cleanup()

    def listen_for(self, word, seconds=20):
        """Returns the message with `word`; those before it are kept in heard."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.socket.settimeout(max(0.01, end - time.monotonic()))
            try:
                message = self.socket.recv(4096).decode()
            except TimeoutError:
                break
            self.heard.append(message)
            if word in message.splitlines() or any(line.startswith(word) for line in message.splitlines()):
                return message
        raise AssertionError(f"nobody said {word}; heard: {self.heard}")


class Notify(unittest.TestCase):
    def setUp(self):
        self.manager = Manager()
        self.addCleanup(self.manager.close)

    def serve(self, *flags, **env):
        server = Server(*flags, env={"NOTIFY_SOCKET": self.manager.path, **env})
        self.addCleanup(server.kill)
        return server

    def test_it_tells_of_loading_readiness_reload_and_the_end(self):
        server = self.serve()
        ready = self.manager.listen_for("READY=1")
        self.assertIn(f"STATUS=serving on http://127.0.0.1:{server.port}", ready)
        self.assertIn(f"MAINPID={server.process.pid}", ready)
        self.assertTrue(any(re.search(r"STATUS=loading: .*, \d+ %", m) for m in self.manager.heard), self.manager.heard)
        self.assertTrue(any("EXTEND_TIMEOUT_USEC=" in m for m in self.manager.heard))
        server.process.send_signal(signal.SIGHUP)
        self.assertIn("MONOTONIC_USEC=", self.manager.listen_for("RELOADING=1"))
        self.manager.listen_for("READY=1")
        self.assertEqual(server.stop(), 0)
        self.manager.listen_for("STOPPING=1")

    def test_the_watchdog_is_fed_often_enough(self):
        self.serve(WATCHDOG_USEC="400000")
        self.manager.listen_for("READY=1")
        last = None
        for _ in range(5):
            self.manager.listen_for("WATCHDOG=1")
            now = time.monotonic()
            if last is not None:
                self.assertLess(now - last, 0.4)
            last = now

    def test_a_drain_tells_what_it_waits_for(self):
        server = self.serve()
        self.manager.listen_for("READY=1")
        body = {"input_ids": [1], "stream": True, "sampling_params": {"temperature": 0, "max_new_tokens": 400, "ignore_eos": True}}
        raw = server.open_stream("/generate", body)
        self.addCleanup(raw.close)
        raw.recv(100)
        server.process.send_signal(signal.SIGTERM)
        self.assertRegex(self.manager.listen_for("STOPPING=1"), r"STATUS=[01] requests may finish")
        self.assertEqual(server.process.wait(40), 0)


class Activation(unittest.TestCase):
    """Starts the server as systemd does: descriptor 3 is the listening socket, LISTEN_PID the process itself."""

    def start(self, *sockets):
        def take_places():
            kept = [os.dup(s.fileno()) for s in sockets]
            for place, descriptor in enumerate(kept):
                os.dup2(descriptor, 3 + place, inheritable=True)

        script = f'LISTEN_PID=$$ LISTEN_FDS={len(sockets)} exec "$@"'
        log = tempfile.TemporaryFile()
        process = subprocess.Popen(["sh", "-c", script, "sh", BINARY, "serve", str(MODEL), "--threads", "1"], stderr=log,
                                   close_fds=False, preexec_fn=take_places)

        def stop():
            process.kill()
            process.wait()
            log.close()

        def text():
            log.seek(0)
            return log.read().decode()

        self.addCleanup(stop)
        process.text = text
        return process

    def test_a_client_that_came_before_the_server_is_served(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        port = listener.getsockname()[1]
        early = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.addCleanup(early.close)
        early.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        process = self.start(listener)
        self.assertIn(b"200 OK", early.recv(1000))
        eventually(lambda: f"ready on http://127.0.0.1:{port}" in process.text(), True, 30)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 0)
        # The socket is the manager's: the next one would be served by the next process.
        socket.create_connection(("127.0.0.1", port), timeout=5).close()

    def test_a_unix_socket_stays_when_the_server_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "espalier.sock")
            listener = socket.socket(socket.AF_UNIX)
            self.addCleanup(listener.close)
            listener.bind(path)
            listener.listen()
            process = self.start(listener)
            eventually(lambda: f"ready on unix:{path}" in process.text(), True, 30)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(30), 0)
            self.assertTrue(os.path.exists(path))

    def test_two_sockets_are_refused_in_a_sentence(self):
        first, second = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
        self.addCleanup(first.close)
        self.addCleanup(second.close)
        process = self.start(first, second)
        self.assertEqual(process.wait(30), 2)
        self.assertIn("2 sockets", process.text())


class Units(unittest.TestCase):
    def test_the_units_are_what_the_server_does(self):
        unit = (SOURCE / "deploy/systemd/espalier.service").read_text()
        self.assertIn("Type=notify\n", unit)
        flags = subprocess.run([BINARY, "serve", "--help"], capture_output=True, text=True).stdout
        for variable in re.findall(r"ESPALIER_([A-Z_]+)=", unit):
            if variable != "CACHE":
                self.assertIn("--" + variable.lower().replace("_", "-"), flags)
        stop = int(re.search(r"TimeoutStopSec=(\d+)", unit)[1])
        default = float(re.search(r"shutdown-timeout: ([0-9.]+)",
                                  subprocess.run([BINARY, "serve", "--print-config"], capture_output=True, text=True).stdout)[1])
        self.assertGreater(stop, default + 2)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd is not installed here")
    def test_systemd_finds_nothing_wrong_with_them(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("espalier.service", "espalier.socket"):
                text = (SOURCE / "deploy/systemd" / name).read_text().replace("/usr/local/bin/espalier", BINARY)
                (pathlib.Path(folder) / name).write_text(text)
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", folder + "/espalier.service", folder + "/espalier.socket"],
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
