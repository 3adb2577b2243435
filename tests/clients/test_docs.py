"""The snippets of docs/clients.md run as they stand there, but for the port."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from served import SHORT, SOURCE, Server

ADDRESS = "http://127.0.0.1:30000"
PAGE = (SOURCE / "docs" / "clients.md").read_text()
PACKAGES = SOURCE / "build" / "clients"


class Docs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--chat-template", SHORT)
        cls.addClassCleanup(cls.server.kill)

    def run_each(self, language, command, folder):
        blocks = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.S | re.M)
        self.assertGreater(len(blocks), 0)
        for i, block in enumerate(blocks):
            file = os.path.join(folder, f"snippet-{i}.mjs")
            with open(file, "w") as out:
                out.write(block.replace(ADDRESS, f"http://127.0.0.1:{self.server.port}"))
            done = subprocess.run([*command, file], capture_output=True, text=True, timeout=120,
                                  env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"})
            self.assertEqual(done.returncode, 0, block + done.stdout + done.stderr)
            self.assertTrue(done.stdout, block)  # a line; what a random model says may be nothing
            self.assertNotIn('"error"', done.stdout)

    def test_python(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_each("python", [sys.executable], folder)

    def test_ollama(self):
        if self.server.get("/api/version").status == 404:
            self.skipTest("this server has no Ollama routes (/api/version is 404)")
        with tempfile.TemporaryDirectory() as folder:
            self.run_each("python ollama", [sys.executable], folder)

    @unittest.skipIf(shutil.which("curl") is None, "there is no curl here")
    def test_curl(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_each("bash", ["bash", "-e"], folder)

    @unittest.skipUnless(shutil.which("node") and (PACKAGES / "package.done").exists(), "there is no Node.js, or no packages for it")
    def test_javascript(self):
        self.run_each("javascript", ["node"], PACKAGES)


if __name__ == "__main__":
    unittest.main()
