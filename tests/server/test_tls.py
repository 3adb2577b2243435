"""HTTPS on the real binary: answers and streams, certificates that change under it, clients that speak something else."""
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest

from harness import BINARY, Server, eventually, in_parallel

SHORT = {"input_ids": [1], "sampling_params": {"temperature": 0, "max_new_tokens": 4, "ignore_eos": True}}


class SecureServer(Server):
    def connect(self, timeout=60):
        context = ssl.create_default_context(cafile=self.trusted)
        return http.client.HTTPSConnection("localhost", self.port, timeout=timeout, context=context)


@unittest.skipUnless(shutil.which("openssl"), "the openssl program makes the certificates")
class Https(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.certificate, self.key = self.folder / "cert.pem", self.folder / "key.pem"

    def make_certificate(self, name, *more):
        new = {what: self.folder / f"{name}.{what}" for what in ("cert", "key")}
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2",
                        "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", new["key"],
                        "-out", new["cert"], *(more or ["-nodes"])], check=True, capture_output=True)
        os.replace(new["key"], self.key)
        os.replace(new["cert"], self.certificate)

    def serve(self, *flags, **more):
        server = SecureServer("--ssl-certfile", str(self.certificate), "--ssl-keyfile", str(self.key), *flags, wait=False, **more)
        self.addCleanup(server.kill)
        server.trusted = str(self.certificate)
        return server.wait_ready()

    def name_shown(self, server):
        context = ssl._create_unverified_context()
        context.check_hostname = False
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw, context.wrap_socket(raw) as secure:
            der = secure.getpeercert(binary_form=True)
        text = subprocess.run(["openssl", "x509", "-inform", "der", "-noout", "-subject"], input=der, capture_output=True).stdout.decode()
        return re.search(r"CN\s*=\s*(\S+)", text)[1]

    def test_answers_streams_and_large_bodies_come_through(self):
        self.make_certificate("one")
        server = self.serve()
        whole = server.generate(**SHORT)
        streamed = server.post("/generate", {**SHORT, "stream": True}).events
        self.assertEqual(streamed[-1], "[DONE]")
        self.assertEqual(streamed[-2]["output_ids"], whole["output_ids"])
        long = server.post("/tokenize", {"prompt": "word " * 100000})
        self.assertEqual(long.status, 200)
        self.assertGreater(len(long.json["tokens"]), 100000)
        self.assertEqual([r.status for r in in_parallel(16, lambda _: server.post("/generate", SHORT))], [200] * 16)
        self.assertEqual(server.stop(), 0)

    def test_one_connection_serves_many_requests_by_http_1_1_only(self):
        self.make_certificate("one")
        server = self.serve()
        context = ssl.create_default_context(cafile=server.trusted)
        context.set_alpn_protocols(["h2", "http/1.1"])
        self.assertTrue(context.wrap_bio)
        connection = http.client.HTTPSConnection("localhost", server.port, context=context, timeout=30)
        for _ in range(3):
            connection.request("GET", "/health")
            self.assertEqual(connection.getresponse().read(), b'{"status":"ok"}')
        self.assertEqual(connection.sock.selected_alpn_protocol(), "http/1.1")
        self.assertIn(connection.sock.version(), ("TLSv1.2", "TLSv1.3"))
        connection.close()
        self.assertEqual(server.metric("espalier_connections_accepted_total"), 2)

    def test_what_is_no_tls_costs_its_connection_and_nothing_else(self):
        self.make_certificate("one")
        server = self.serve()
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
            raw.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            left = raw.recv(1000)
            self.assertNotIn(b"HTTP/1.1 200", left)
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
            raw.sendall(bytes(range(256)) * 10)
        self.assertEqual(server.get("/health").status, 200)

    def test_sighup_shows_the_new_certificate(self):
        self.make_certificate("one")
        server = self.serve()
        self.assertEqual(self.name_shown(server), "one")
        kept = server.connect()
        kept.request("GET", "/health")
        kept.getresponse().read()
        self.make_certificate("two")
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: "certificates were read again" in server.text(), True)
        self.assertEqual(self.name_shown(server), "two")
        kept.request("GET", "/health")  # a connection that stands goes on
        self.assertEqual(kept.getresponse().status, 200)
        kept.close()

    def test_changed_files_are_noticed_without_a_signal(self):
        self.make_certificate("one")
        server = self.serve()
        self.make_certificate("two")
        eventually(lambda: self.name_shown(server), "two")

    def test_a_broken_certificate_leaves_the_old_one(self):
        self.make_certificate("one")
        server = self.serve()
        self.certificate.write_text("no certificate\n")
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: "certificates stay as they were: --ssl-certfile" in server.text(), True)
        self.assertEqual(self.name_shown(server), "one")

    def test_a_key_with_a_password_opens_by_it_and_is_shown_nowhere(self):
        self.make_certificate("one", "-passout", "pass:tell-nobody")
        refused = Server("--ssl-certfile", str(self.certificate), "--ssl-keyfile", str(self.key), wait=False)
        self.addCleanup(refused.kill)
        self.assertEqual(refused.process.wait(30), 2)
        self.assertIn("--ssl-keyfile-password", refused.text())
        server = self.serve(env={"ESPALIER_SSL_KEYFILE_PASSWORD": "tell-nobody"})
        self.assertEqual(server.get("/health").status, 200)
        self.assertNotIn("tell-nobody", json.dumps(server.get("/get_server_info").json))
        shown = subprocess.run([BINARY, "serve", "--print-config", "--ssl-keyfile-password", "tell-nobody"], capture_output=True, text=True)
        self.assertNotIn("tell-nobody", shown.stdout)

    def test_a_key_without_its_certificate_is_a_sentence(self):
        server = Server("--ssl-keyfile", str(self.key), wait=False)
        self.addCleanup(server.kill)
        self.assertEqual(server.process.wait(30), 2)
        self.assertIn("--ssl-certfile", server.text())


if __name__ == "__main__":
    unittest.main()
